#!/usr/bin/env bash
# Installs the system packages that Interlock needs. `make deps`, `make setup` and other targets call it.
#
#   Tools/setup.sh build     check the version of Swift; install what building and running need
#   Tools/setup.sh test      install what only tests and the simulation need
#   Tools/setup.sh venv      install Python's venv, which makes .venv
#   Tools/setup.sh bench     install wrk and h2load for the benchmarks
#   Tools/setup.sh etcd      install etcd and its Go client for the benchmarks; fails if the system has no package for it
#   Tools/setup.sh traces    install protoc, which reads the declarations of trace messages
#   Tools/setup.sh specs     install Java, which runs TLC
#   Tools/setup.sh interop   install other Redis clients and proxies to test with
#   Tools/setup.sh console   install Chromium and tmux, which test the console and `interlock top`
set -euo pipefail
cd "$(dirname "$0")/.."

die() {
    echo "setup: $1" >&2
    exit 1
}

has() {
    command -v "$1" > /dev/null
}

check_swift() {
    local oldest found
    oldest=$(sed -nE '1s/.*swift-tools-version: *([0-9.]+).*/\1/p' Package.swift)
    has swift || die "swift not found; install Swift $oldest or newer from https://www.swift.org/install"
    found=$(swift --version 2> /dev/null | sed -nE 's/.*Swift version ([0-9]+(\.[0-9]+)*).*/\1/p' | head -n 1)
    [[ -n "$found" && "$(printf '%s\n' "$oldest" "$found" | sort -V | head -n 1)" == "$oldest" ]] \
        || die "expected Swift $oldest or newer, got ${found:-an unknown version}"
    echo "setup: Swift $found"
}

# Adds a package to `missing` unless the given command succeeds. The command checks for the software instead of asking the
# package manager, because the software may have been installed another way.
missing=()
need() {
    local package=$1
    shift
    "$@" > /dev/null 2>&1 || missing+=("$package")
}

has_hiredis() {
    [[ -e /usr/include/hiredis/hiredis.h || -e /usr/local/include/hiredis/hiredis.h ]]
}

has_nginx() {
    [[ -x /usr/sbin/nginx ]] || has nginx
}

has_prometheus() {
    has prometheus && has promtool
}

has_haproxy() {
    [[ -x /usr/sbin/haproxy ]] || has haproxy
}

has_browser() {
    has chromium || has chromium-browser || has google-chrome
}

has_go_library() {
    [[ -d "/usr/share/gocode/src/$1" ]]
}

has_redis_tools() {
    has redis-cli && has redis-benchmark
}

install_missing() {
    if ((${#missing[@]} == 0)); then
        echo "setup: all packages for $1 are installed"
        return
    fi
    has apt-get || die "install these packages first, under this system's names: ${missing[*]}"
    local root=()
    ((EUID == 0)) || root=(sudo)
    echo "setup: installing ${missing[*]}"
    "${root[@]}" apt-get -qq update
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "${missing[@]}"
    local service
    for service in redis-server nginx haproxy prometheus etcd; do
        if [[ " ${missing[*]} " == *" $service"[\ -]* && -d /run/systemd/system ]]; then
            echo "setup: disabling the package's $service service; Interlock starts its own servers"
            "${root[@]}" systemctl disable --quiet --now "$service"
        fi
    done
}

case "${1:-}" in
build)
    check_swift
    need libhiredis-dev has_hiredis
    need libmd-dev test -e /usr/include/sha2.h
    need libyaml-dev test -e /usr/include/yaml.h
    need redis-server has redis-server
    need redis-tools has_redis_tools
    need util-linux has setpriv
    need curl has curl
    need python3 has python3
    ;;
test)
    need liblua5.1-0-dev test -e /usr/include/lua5.1/lua.h
    need lua-cjson-dev compgen -G '/usr/lib/*/liblua5.1-cjson.so'
    need faketime has faketime
    need nginx has_nginx
    need haproxy has_haproxy
    need prometheus has_prometheus
    ;;
venv)
    need python3-venv python3 -c 'import ensurepip, venv'
    ;;
bench)
    need wrk has wrk
    need nghttp2-client has h2load
    ;;
traces)
    need protobuf-compiler has protoc
    ;;
specs)
    need openjdk-17-jre-headless has java
    ;;
console)
    need chromium has_browser
    need tmux has tmux
    ;;
interop)
    need nghttp2-proxy has nghttpx
    need erlang-base has escript
    need erlang-redis-client compgen -G '/usr/lib/erlang/lib/redis_client-*'
    need php-cli has php
    need php-redis compgen -G '/usr/lib/php/*/redis.so'
    need php-predis test -e /usr/share/php/Predis/autoload.php
    need ruby-redis compgen -G '/usr/share/rubygems-integration/*/gems/redis-4*'
    need libredis-perl test -e /usr/share/perl5/Redis.pm
    need golang-go has go
    need golang-github-gomodule-redigo-dev has_go_library github.com/gomodule/redigo
    need golang-github-fatih-color-dev has_go_library github.com/fatih/color
    need golang-github-spf13-cobra-dev has_go_library github.com/spf13/cobra
    need golang-golang-x-net-dev has_go_library golang.org/x/net
    ;;
etcd)
    need etcd-server has etcd
    need golang-go has go
    need golang-etcd-server-dev has_go_library go.etcd.io/etcd
    need golang-github-gomodule-redigo-dev has_go_library github.com/gomodule/redigo
    need golang-github-hashicorp-go-multierror-dev has_go_library github.com/hashicorp/go-multierror
    ;;
*)
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 64
    ;;
esac
install_missing "$1"

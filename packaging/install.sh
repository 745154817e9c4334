#!/usr/bin/env bash
# Installs the sidecar, or removes the installed files:
#
#   packaging/install.sh install|uninstall
#
# Variables, with their defaults:
#   DESTDIR=                       the directory that replaces the file system's root, for packages
#   PREFIX=/usr/local  SYSCONFDIR=/etc
#   UNITDIR=$PREFIX/lib/systemd/system
#   ZSHDIR=$PREFIX/share/zsh/site-functions
#   FISHDIR=$PREFIX/share/fish/vendor_completions.d
#   STATIC_BINARY=.build/release/interlock    interlock-bench must be in the same directory
#   CHECKOUTS=.build/checkouts        the sources of the linked libraries
set -euo pipefail
cd "$(dirname "$0")/.."

: "${DESTDIR:=}" "${PREFIX:=/usr/local}" "${SYSCONFDIR:=/etc}" "${STATIC_BINARY:=.build/release/interlock}"
: "${UNITDIR:=$PREFIX/lib/systemd/system}" "${ZSHDIR:=$PREFIX/share/zsh/site-functions}"
: "${FISHDIR:=$PREFIX/share/fish/vendor_completions.d}" "${CHECKOUTS:=.build/checkouts}"
share=$DESTDIR$PREFIX/share
binary=$DESTDIR$PREFIX/bin/interlock
bench=$DESTDIR$PREFIX/bin/interlock-bench
unit=$DESTDIR$UNITDIR/interlock.service
users=$DESTDIR$PREFIX/lib/sysusers.d/interlock.conf
configuration=$DESTDIR$SYSCONFDIR/interlock/interlock.yaml
bash=$share/bash-completion/completions/interlock
zsh=$DESTDIR$ZSHDIR/_interlock
fish=$DESTDIR$FISHDIR/interlock.fish
manuals=$share/man/man1
formats=$share/man/man5
documents=$share/doc/interlock
# Each is installed below examples without its first directory: docs/envoy/envoy.yaml as envoy/envoy.yaml.
examples=(docs/sample.yaml docs/monitoring/{alerts.yml,fleet.json,services.json} docker/kubernetes/*.yaml docs/envoy/*.yaml)

# The licences of the linked libraries, which must accompany every copy of the binary.
third_party() {
    echo "Interlock is linked with these libraries, each under its own licence."
    local file
    for file in "$CHECKOUTS"/*/{LICENSE,NOTICE}*; do
        [[ -f $file ]] || continue
        printf '\n======== %s\n\n' "${file#"$CHECKOUTS"/}"
        cat "$file"
    done
}

install_all() {
    local example generated path shell
    for path in "$STATIC_BINARY" "$STATIC_BINARY-bench" "$CHECKOUTS"; do
        [[ -e $path ]] || { echo "install: $path does not exist; run \`make build\` first" >&2; exit 1; }
    done
    [[ $(ldd "$STATIC_BINARY") != *libswift* ]] ||
        { echo "install: $STATIC_BINARY needs the Swift toolchain's libraries; run \`make build\`" >&2; exit 1; }
    generated=$(mktemp -d)
    trap 'rm -rf "$generated"' RETURN
    python3 packaging/manual.py "$generated/man" "$STATIC_BINARY" "$STATIC_BINARY-bench"
    for shell in bash zsh fish; do "$STATIC_BINARY" --generate-completion-script "$shell" | sed '1{/^#!/d}' >"$generated/$shell"; done
    sed -e "s,@bindir@,$PREFIX/bin,g" -e "s,@sysconfdir@,$SYSCONFDIR,g" packaging/interlock.service >"$generated/unit"
    third_party >"$generated/third-party"

    install -D -m 0755 --strip "$STATIC_BINARY" "$binary"
    install -D -m 0755 --strip "$STATIC_BINARY-bench" "$bench"
    install -D -m 0644 "$generated/bash" "$bash"
    install -D -m 0644 "$generated/zsh" "$zsh"
    install -D -m 0644 "$generated/fish" "$fish"
    install -d -m 0755 "$manuals"
    install -m 0644 "$generated"/man/*.1 "$manuals"
    install -D -m 0644 "$generated/man/interlock.yaml.5" "$formats/interlock.yaml.5"
    install -D -m 0644 "$generated/unit" "$unit"
    install -D -m 0644 packaging/interlock.sysusers "$users"
    install -D -m 0644 packaging/copyright "$documents/copyright"
    install -D -m 0644 "$generated/third-party" "$documents/third-party-licences"
    for example in "${examples[@]}"; do install -D -m 0644 "$example" "$documents/examples/${example#*/}"; done
    # A changed configuration stays.
    [[ -e $configuration ]] || install -D -m 0644 packaging/interlock.yaml "$configuration"
    [[ -n $DESTDIR ]] || cat <<END
Installed in $PREFIX. To start the sidecar with this host:

    systemd-sysusers $users
    systemctl daemon-reload
    systemctl enable --now interlock
END
}

uninstall_all() {
    local example name
    rm -f "$binary" "$bench" "$bash" "$zsh" "$fish" "$unit" "$users" "$manuals"/interlock.1 "$manuals"/interlock-*.1 "$formats/interlock.yaml.5"
    rm -f "$documents"/{copyright,third-party-licences}
    for example in "${examples[@]}"; do rm -f "$documents/examples/${example#*/}"; done
    cmp -s packaging/interlock.yaml "$configuration" && rm -f "$configuration"
    for name in "$documents"/examples/{monitoring,kubernetes,envoy} "$documents/examples" "$documents" "$(dirname "$configuration")"; do
        [[ ! -d $name ]] || rmdir --ignore-fail-on-non-empty "$name"
    done
    [[ ! -e $configuration ]] || echo "uninstall: kept $configuration, because it differs from the default"
}

case ${1:-} in
    install) install_all ;;
    uninstall) uninstall_all ;;
    *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 64 ;;
esac

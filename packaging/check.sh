#!/usr/bin/env bash
# Checks a Debian package that packaging/deb.sh built: packaging/check.sh PACKAGE
#
# The configuration must be valid, the unit valid and rated below 2.5 by systemd, and lintian must find no error. The
# script names and skips tools that are not installed.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
dpkg-deb --extract "$1" "$folder"
binary=$folder/usr/bin/interlock
unit=$folder/lib/systemd/system/interlock.service

has() { command -v "$1" >/dev/null || { echo "check: $1 is not installed; skipped" >&2; return 1; }; }

"$binary" check-config "$folder/etc/interlock/interlock.yaml" >/dev/null
if has systemd-analyze; then
    systemd-analyze security --offline=true --threshold=25 --no-pager "$unit" | tail -n 1
    # systemd expects the program at the unit's path, where this one is not installed.
    sed "s,/usr/bin/interlock,$binary,g" "$unit" >"$folder/interlock.service"
    systemd-analyze --man=no verify "$folder/interlock.service"
fi
if has lintian; then lintian --allow-root --fail-on error "$1"; fi

#!/usr/bin/env bash
# Builds a Debian package from the binaries of `make build`, checks it, and prints its path.
#
# Variables: STATIC_BINARY, as in packaging/install.sh; DEBFULLNAME and DEBEMAIL, the maintainer of the package, by
# default the author of the last commit.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${STATIC_BINARY:=.build/release/interlock}"
[[ -x $STATIC_BINARY ]] || { echo "deb: $STATIC_BINARY does not exist; run \`make build\` first" >&2; exit 1; }
for tool in dpkg-deb dpkg-shlibdeps; do
    command -v "$tool" >/dev/null || { echo "deb: $tool not found; install dpkg-dev" >&2; exit 1; }
done

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH STATIC_BINARY
version=$("$STATIC_BINARY" --version)
# Between releases, a package sorts before the next release and after packages of earlier commits.
[[ $(git tag --points-at HEAD) == *"v$version"* ]] || version+="~git$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(git rev-parse --short=8 HEAD)"
architecture=$(dpkg --print-architecture)
maintainer="${DEBFULLNAME:-$(git log -1 --format=%an)} <${DEBEMAIL:-$(git log -1 --format=%ae)}>"

folder=.build-deb
root=$folder/root
rm -rf "$root"
mkdir -p "$root/DEBIAN"

DESTDIR=$PWD/$root PREFIX=/usr UNITDIR=/lib/systemd/system ZSHDIR=/usr/share/zsh/vendor-completions \
    packaging/install.sh install
documents=$root/usr/share/doc/interlock
cp CHANGELOG.md "$documents/NEWS.md"
cat >"$documents/changelog" <<END
interlock ($version) unstable; urgency=medium

  * What has changed is in NEWS.md, beside this file.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
gzip -9n "$documents"/{changelog,NEWS.md,third-party-licences} "$root"/usr/share/man/man1/*.1 "$root"/usr/share/man/man5/*.5

# dpkg-shlibdeps needs the directory of a source package.
mkdir -p "$folder/debian"
printf 'Source: interlock\n\nPackage: interlock\nArchitecture: any\n' >"$folder/debian/control"
libraries=$(cd "$folder" && dpkg-shlibdeps -O -eroot/usr/bin/interlock 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
[[ -n $libraries ]] || { echo "deb: dpkg-shlibdeps cannot determine the packages that the binary needs" >&2; exit 1; }

sed -e "s/@version@/$version/" -e "s/@architecture@/$architecture/" -e "s/@maintainer@/$maintainer/" \
    -e "s/@libraries@/$libraries/" -e "s/@size@/$(du -k -s --apparent-size "$root" | cut -f1)/" \
    packaging/debian/control >"$root/DEBIAN/control"
install -m 0755 packaging/debian/{postinst,prerm,postrm} "$root/DEBIAN"
echo /etc/interlock/interlock.yaml >"$root/DEBIAN/conffiles"
(cd "$root" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

package=$folder/interlock_${version}_${architecture}.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
packaging/check.sh "$package" >&2
echo "$package"

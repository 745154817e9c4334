#!/bin/bash
# Builds the documentation of the libraries into .build/docc with the toolchain's docc. A warning is a failure.
# To read it, serve .build/docc/Interlock.doccarchive, for example with `docc preview`.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v docc > /dev/null; then
    echo "docc: this Swift toolchain has no docc" >&2
    exit 69
fi
for library in Interlock InterlockClient; do swift build --target "$library"; done
products=$(swift build --show-bin-path)
out=.build/docc
rm -rf "$out"

# Compiler flags for imported C modules.
flags=(-target "$(swift -print-target-info | sed -n 's/.*"unversionedTriple": "\(.*\)".*/\1/p')" -I "$products/Modules" -I Sources/CHiredis)
for map in "$products"/*.build/module.modulemap; do flags+=(-Xcc "-fmodule-map-file=$map"); done
for headers in .build/checkouts/*/Sources/*/include; do flags+=(-I "$headers"); done

# `import Interlock` exports InterlockCore, so its declarations are documented there.
for library in Interlock InterlockClient; do
    mkdir -p "$out/$library"
    swift symbolgraph-extract -module-name "$library" "${flags[@]}" -minimum-access-level public -skip-inherited-docs \
        -skip-synthesized-members -experimental-allowed-reexported-modules=InterlockCore -output-dir "$out/$library"
    catalog=()
    [[ -d Sources/$library/$library.docc ]] && catalog=("Sources/$library/$library.docc")
    docc convert "${catalog[@]}" --additional-symbol-graph-dir "$out/$library" --fallback-display-name "$library" \
        --fallback-bundle-identifier "interlock.$library" --output-path "$out/$library.doccarchive" --warnings-as-errors
    echo "docc: $out/$library.doccarchive"
done

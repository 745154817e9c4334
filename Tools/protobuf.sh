#!/usr/bin/env bash
# Makes the Swift code of Sources/InterlockOTLP from its .proto files, which declare what Interlock uses of OTLP.
#
#   Tools/protobuf.sh           write it
#   Tools/protobuf.sh --check   fail unless what is there is what would be written
set -euo pipefail
cd "$(dirname "$0")/.."

sources=Sources/InterlockOTLP
checkout=.build/checkouts/swift-protobuf
[[ -d $checkout ]] || swift package resolve > /dev/null
[[ -d $checkout ]] || { echo "protobuf: swift-protobuf was not resolved into $checkout" >&2; exit 1; }
swift build --package-path "$checkout" --scratch-path .build-protobuf --product protoc-gen-swift > /dev/null
plugin=$(swift build --package-path "$checkout" --scratch-path .build-protobuf --show-bin-path)/protoc-gen-swift

made=$(mktemp --directory)
trap 'rm -rf "$made"' EXIT
mapfile -t files < <(cd "$sources" && find opentelemetry -name '*.proto' | sort)
protoc --proto_path="$sources" --plugin=protoc-gen-swift="$plugin" --swift_out="$made" \
    --swift_opt=Visibility=Package,UseAccessLevelOnImports=true,FileNaming=DropPath "${files[@]}"
if [[ "${1:-}" == --check ]]; then
    diff --recursive "$made" "$sources" --exclude='*.proto' --exclude=opentelemetry
else
    cp "$made"/*.swift "$sources"
fi

#!/usr/bin/env bash
# Generates the Swift code of Sources/OTLPMessages and Sources/EnvoyMessages from their .proto files, which declare the
# parts of OTLP and of Envoy's services that Interlock uses.
#
#   Tools/protobuf.sh           write the code
#   Tools/protobuf.sh --check   fail if the existing code differs
set -euo pipefail
cd "$(dirname "$0")/.."

checkout=.build/checkouts/swift-protobuf
[[ -d $checkout ]] || swift package resolve > /dev/null
[[ -d $checkout ]] || { echo "protobuf: swift-protobuf is not resolved into $checkout" >&2; exit 1; }
swift build --package-path "$checkout" --scratch-path .build-protobuf --product protoc-gen-swift > /dev/null
plugin=$(swift build --package-path "$checkout" --scratch-path .build-protobuf --show-bin-path)/protoc-gen-swift

for sources in Sources/OTLPMessages Sources/EnvoyMessages; do
    generated=$(mktemp --directory)
    mapfile -t files < <(cd "$sources" && find . -name '*.proto' -printf '%P\n' | sort)
    protoc --proto_path="$sources" --proto_path="$checkout/Protos/Sources/SwiftProtobuf" --plugin=protoc-gen-swift="$plugin" --swift_out="$generated" \
        --swift_opt=Visibility=Package,UseAccessLevelOnImports=true,FileNaming=DropPath "${files[@]}"
    if [[ "${1:-}" == --check ]]; then
        diff <(cd "$generated" && tail -n +1 -- *.swift) <(cd "$sources" && tail -n +1 -- *.swift)
    else
        cp "$generated"/*.swift "$sources"
    fi
    rm -rf "$generated"
done

/// How the bytes of a stream come in: sockets give them in pieces of any size.
enum Chunking {
    case whole
    case bytewise
    /// In pieces whose sizes follow from the bytes themselves.
    case scattered

    func chunks(of stream: [UInt8]) -> [ArraySlice<UInt8>] {
        switch self {
        case .whole: [stream[...]]
        case .bytewise: stream.indices.map { stream[$0...$0] }
        case .scattered: Self.scattered(stream)
        }
    }

    private static func scattered(_ stream: [UInt8]) -> [ArraySlice<UInt8>] {
        var random = stream.fnv
        var chunks: [ArraySlice<UInt8>] = []
        var rest = stream[...]
        while !rest.isEmpty {
            random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let chunk = rest.prefix(1 + Int(random >> 59))
            chunks.append(chunk)
            rest = rest.dropFirst(chunk.count)
        }
        return chunks
    }
}

extension [UInt8] {
    /// FNV-1a: a number that looks like chance and is the same in every process.
    var fnv: UInt64 {
        reduce(0xCBF2_9CE4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01B3 }
    }
}

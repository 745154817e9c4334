import Hiredis

extension RedisReply {
    /// Any reply, with arrays at most `depth` deep.
    static func random(depth: Int, using random: inout SplitMix) -> RedisReply {
        switch Int.random(in: 0..<(depth > 0 ? 8 : 6), using: &random) {
        case 0: .status(randomText(using: &random))
        case 1: .error(RedisError(.server(.error), "ERR " + randomText(using: &random)))
        case 2: .integer(.random(in: .min ... .max, using: &random))
        case 3: .integer([.min, .max, 0, -1].randomElement(using: &random) ?? 0)
        case 4: .null
        case 5:
            .bulk((0..<Int.random(in: 0..<40, using: &random)).map { _ in .random(in: .min ... .max, using: &random) })
        default:
            .array((0..<Int.random(in: 0..<5, using: &random)).map { _ in .random(depth: depth - 1, using: &random) })
        }
    }

    private static func randomText(using random: inout SplitMix) -> String {
        String((0..<Int.random(in: 0..<20, using: &random)).map { _ in "abc XYZ$*:+-09".randomElement(using: &random) ?? "a" })
    }

    /// The reply as a server writes it.
    var wire: [UInt8] {
        switch self {
        case .status(let text): Array("+\(text)\r\n".utf8)
        case .error(let error): Array("-\(error.message)\r\n".utf8)
        case .integer(let value): Array(":\(value)\r\n".utf8)
        case .null: Array("$-1\r\n".utf8)
        case .bulk(let bytes): Array("$\(bytes.count)\r\n".utf8) + bytes + Array("\r\n".utf8)
        case .array(let elements): Array("*\(elements.count)\r\n".utf8) + elements.flatMap(\.wire)
        }
    }
}

internal import NIOCore

/// Reads commands as clients send them: `*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n`.
struct CommandDecoder: ByteToMessageDecoder {
    typealias InboundOut = [[UInt8]]

    /// The peer sent what no client sends.
    struct Malformed: Error {}

    private static let wordLimit = 100_000
    private static let lengthLimit = 64 << 20

    mutating func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws -> DecodingState {
        // Read again from its start when the rest of the command has come: commands in tests are short.
        var attempt = buffer
        guard let words = try Self.command(from: &attempt) else { return .needMoreData }
        buffer = attempt
        context.fireChannelRead(Self.wrapInboundOut(words))
        return .continue
    }

    private static func command(from buffer: inout ByteBuffer) throws -> [[UInt8]]? {
        guard let count = try number(after: UInt8(ascii: "*"), from: &buffer) else { return nil }
        guard count <= wordLimit else { throw Malformed() }
        var words: [[UInt8]] = []
        for _ in 0..<count {
            guard let length = try number(after: UInt8(ascii: "$"), from: &buffer) else { return nil }
            guard length <= lengthLimit else { throw Malformed() }
            guard let word = buffer.readBytes(length: length), let end = buffer.readBytes(length: 2) else { return nil }
            guard end == [UInt8(ascii: "\r"), UInt8(ascii: "\n")] else { throw Malformed() }
            words.append(word)
        }
        return words
    }

    private static func number(after kind: UInt8, from buffer: inout ByteBuffer) throws -> Int? {
        guard let end = buffer.readableBytesView.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        guard let line = buffer.readBytes(length: end - buffer.readerIndex + 1), line.count > 3, line[0] == kind,
            let number = Int(String(decoding: line[1..<(line.count - 2)], as: UTF8.self)), number >= 0
        else { throw Malformed() }
        return number
    }
}

internal import NIOCore

/// One connection of a `MisbehavingRedis`. Confined to its channel's event loop.
final class MisbehavingRedisHandler: ChannelInboundHandler {
    typealias InboundIn = [[UInt8]]
    typealias OutboundOut = ByteBuffer

    private enum Output {
        case bytes(ArraySlice<UInt8>)
        case close
    }

    private let connectionNumber: Int
    private let reply: (ReceivedCommand) -> ScriptedReply
    private var awaitsLogin: Bool
    private var commandCount = 0
    private var outputs = CircularBuffer<Output>()
    private var isWriting = false

    init(connection: Int, answersLogin: Bool, reply: @escaping (ReceivedCommand) -> ScriptedReply) {
        connectionNumber = connection
        self.reply = reply
        awaitsLogin = answersLogin
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let arguments = unwrapInboundIn(data)
        if awaitsLogin, arguments == [Array("PING".utf8)] {
            awaitsLogin = false
            outputs.append(.bytes(ArraySlice("+PONG\r\n".utf8)))
        } else {
            let command = ReceivedCommand(connection: connectionNumber, index: commandCount, arguments: arguments)
            commandCount += 1
            enqueue(reply(command))
        }
        writeNext(context: context)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func enqueue(_ reply: ScriptedReply) {
        switch reply {
        case .silence: break
        case .bytes(let bytes): outputs.append(.bytes(bytes[...]))
        case .oneByOne(let bytes): for index in bytes.indices { outputs.append(.bytes(bytes[index...index])) }
        case .bytesThenClose(let bytes):
            if !bytes.isEmpty { outputs.append(.bytes(bytes[...])) }
            outputs.append(.close)
        }
    }

    /// Writes one output, and writes the next one after the first has been sent.
    private func writeNext(context: ChannelHandlerContext) {
        guard !isWriting, let output = outputs.popFirst() else { return }
        switch output {
        case .close:
            context.close(promise: nil)
        case .bytes(let bytes):
            isWriting = true
            let written = context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: bytes)))
            written.assumeIsolated().whenSuccess { [self] in
                isWriting = false
                // The next output waits for a later tick, so that the two are not sent in one packet.
                context.eventLoop.assumeIsolated().execute { [self] in writeNext(context: context) }
            }
        }
    }
}

/// Decodes commands as clients send them: `*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n`.
struct CommandDecoder: ByteToMessageDecoder {
    typealias InboundOut = [[UInt8]]

    /// An error for bytes that no client sends.
    struct MalformedCommand: Error {}

    private static let wordLimit = 100_000
    private static let lengthLimit = 64 << 20

    mutating func decode(context: ChannelHandlerContext, buffer: inout ByteBuffer) throws -> DecodingState {
        // Decoding starts over when more bytes arrive, because commands in tests are short.
        var attempt = buffer
        guard let arguments = try Self.command(from: &attempt) else { return .needMoreData }
        buffer = attempt
        context.fireChannelRead(Self.wrapInboundOut(arguments))
        return .continue
    }

    private static func command(from buffer: inout ByteBuffer) throws -> [[UInt8]]? {
        guard let count = try number(after: UInt8(ascii: "*"), from: &buffer) else { return nil }
        guard count <= wordLimit else { throw MalformedCommand() }
        var arguments: [[UInt8]] = []
        for _ in 0..<count {
            guard let length = try number(after: UInt8(ascii: "$"), from: &buffer) else { return nil }
            guard length <= lengthLimit else { throw MalformedCommand() }
            guard let word = buffer.readBytes(length: length), let end = buffer.readBytes(length: 2) else { return nil }
            guard end == [UInt8(ascii: "\r"), UInt8(ascii: "\n")] else { throw MalformedCommand() }
            arguments.append(word)
        }
        return arguments
    }

    private static func number(after kind: UInt8, from buffer: inout ByteBuffer) throws -> Int? {
        guard let end = buffer.readableBytesView.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
        guard let line = buffer.readBytes(length: end - buffer.readerIndex + 1), line.count > 3, line[0] == kind,
            let number = Int(String(decoding: line[1..<(line.count - 2)], as: UTF8.self)), number >= 0
        else { throw MalformedCommand() }
        return number
    }
}

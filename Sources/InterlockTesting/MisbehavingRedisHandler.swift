internal import NIOCore

/// One connection of a `MisbehavingRedis`. Confined to its channel's event loop.
final class MisbehavingRedisHandler: ChannelInboundHandler {
    typealias InboundIn = [[UInt8]]
    typealias OutboundOut = ByteBuffer

    private enum Output {
        case bytes(ArraySlice<UInt8>)
        case close
    }

    private let connection: Int
    private let answer: (ReceivedCommand) -> ScriptedAnswer
    private var awaitsLogin: Bool
    private var received = 0
    private var outputs = CircularBuffer<Output>()
    private var isWriting = false

    init(connection: Int, answersLogin: Bool, answer: @escaping (ReceivedCommand) -> ScriptedAnswer) {
        self.connection = connection
        self.answer = answer
        awaitsLogin = answersLogin
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let words = unwrapInboundIn(data)
        if awaitsLogin, words == [Array("PING".utf8)] {
            awaitsLogin = false
            outputs.append(.bytes(ArraySlice("+PONG\r\n".utf8)))
        } else {
            let command = ReceivedCommand(connection: connection, index: received, words: words)
            received += 1
            enqueue(answer(command))
        }
        writeNext(context: context)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func enqueue(_ answer: ScriptedAnswer) {
        switch answer {
        case .silence: break
        case .bytes(let bytes): outputs.append(.bytes(bytes[...]))
        case .oneByOne(let bytes): for index in bytes.indices { outputs.append(.bytes(bytes[index...index])) }
        case .bytesThenClose(let bytes):
            if !bytes.isEmpty { outputs.append(.bytes(bytes[...])) }
            outputs.append(.close)
        }
    }

    /// Writes one output, and the next when it has left.
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
                // A tick of its own, lest the next output joins this write.
                context.eventLoop.assumeIsolated().execute { [self] in writeNext(context: context) }
            }
        }
    }
}

internal import InterlockHTTP
internal import NIOCore
internal import NIOEmbedded
internal import NIOHTTP1

/// The proxy reads a server's answer in one way, no matter how the network splits it. The answer ends once, and a
/// connection that received more than the answer carries no second request.
enum UpstreamProperties {
    private static let methods: [HTTPMethod] = [.GET, .HEAD, .POST, .CONNECT]

    /// Checks that the outcome does not depend on how the bytes are split.
    /// - Parameter input: a byte that selects the method and whether to offer an upgrade, a byte that determines the
    ///   size of the pieces, then the bytes that the server sends.
    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        guard input.count >= 2 else { return }
        var request = HTTPRequestHead(
            version: .http1_1, method: methods[Int(input[0]) % methods.count], uri: "/", headers: ["Host": "a"])
        if input[0] & 0x80 != 0 { request.headers.add(contentsOf: ["Connection": "Upgrade", "Upgrade": "websocket"]) }
        let sent = Array(input.dropFirst(2))
        let length = Int(input[1]) + 1
        let pieces = stride(from: 0, to: sent.count, by: length).map { Array(sent[$0..<min($0 + length, sent.count)]) }
        let unsplit = try Call(request).responseOutcome(of: [sent])
        let inPieces = try Call(request).responseOutcome(of: pieces)
        try expect(unsplit == inPieces, "in one piece: \(unsplit); in pieces of \(length): \(inPieces)")
    }

    /// One request and its outcome.
    private final class Call: HTTPClientReceiver, HTTPClientConnectionOwner {
        struct Outcome: Equatable {
            var head: HTTPResponseHead?
            var body = ByteBuffer()
            var trailers: HTTPHeaders?
            var ends: [End] = []
        }

        enum End: Equatable {
            case whole, failed, switched
        }

        private let request: HTTPRequestHead
        private var outcome = Outcome()
        private var isFree = false

        init(_ request: HTTPRequestHead) {
            self.request = request
        }

        func responseOutcome(of pieces: [[UInt8]]) throws(FuzzFinding) -> Outcome {
            let channel = EmbeddedChannel()
            let connection: HTTPClientConnection
            do {
                try channel.connect(to: SocketAddress(unixDomainSocketPath: "/fuzz")).wait()
                connection = try HTTPClientConnection.installOnConnection(channel, owner: self)
            } catch {
                throw FuzzFinding("the connection does not open: \(error)")
            }
            connection.begin(for: self)
            for piece in pieces where channel.isActive {
                let wasFree = isFree
                // The connection closes with an error if the bytes are not HTTP.
                _ = try? channel.writeInbound(ByteBuffer(bytes: piece))
                channel.embeddedEventLoop.run()
                try expect(!wasFree || !channel.isActive, "a free connection stayed open after receiving \(piece)")
            }
            if isFree, channel.isActive { try checkNext(on: connection, channel) }
            _ = try? channel.finish(acceptAlreadyClosed: true)
            channel.embeddedEventLoop.run()
            try expect(outcome.ends.count == 1, "an answer has the ends \(outcome.ends)")
            return outcome
        }

        /// Checks that the next request gets only the answer that is sent to it, and no earlier bytes.
        private func checkNext(on connection: HTTPClientConnection, _ channel: EmbeddedChannel) throws(FuzzFinding) {
            let next = Call(HTTPRequestHead(version: .http1_1, method: .GET, uri: "/next", headers: ["Host": "a"]))
            connection.begin(for: next)
            _ = try? channel.writeInbound(ByteBuffer(string: "HTTP/1.1 202 Next\r\nContent-Length: 4\r\n\r\nnext"))
            channel.embeddedEventLoop.run()
            let head = HTTPResponseHead(
                version: .http1_1, status: .custom(code: 202, reasonPhrase: "Next"), headers: ["Content-Length": "4"])
            try expect(
                next.outcome.head?.status.code == head.status.code && next.outcome.head?.headers == head.headers
                    && next.outcome.body == ByteBuffer(string: "next") && next.outcome.ends == [.whole],
                "the next answer is read as \(next.outcome)")
        }

        // MARK: Receiver

        func connectionEstablished(_ connection: HTTPClientConnection) {
            connection.send(request)
            connection.sendEnd()
        }

        func connectionFailed(_ error: any Error) { outcome.ends.append(.failed) }

        func headReceived(_ head: HTTPResponseHead) { outcome.head = head }

        func partReceived(_ part: ByteBuffer) { outcome.body.writeImmutableBuffer(part) }

        func endReceived(_ trailers: HTTPHeaders?) {
            outcome.trailers = trailers
            outcome.ends.append(.whole)
        }

        func requestFailed(_ error: any Error) { outcome.ends.append(.failed) }

        func readCompleted() {}

        func writabilityChanged(_ isWritable: Bool) {}

        func protocolSwitched(_ head: HTTPResponseHead, _ connection: HTTPClientConnection) {
            outcome.head = head
            outcome.ends.append(.switched)
            connection.abandon()
        }

        // MARK: Owner

        func takeBack(_ connection: HTTPClientConnection) { isFree = true }

        func connectionRetired(_ connection: HTTPClientConnection) { isFree = false }
    }
}

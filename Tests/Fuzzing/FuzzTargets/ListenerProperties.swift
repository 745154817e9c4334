internal import InterlockHTTP
internal import SidecarListeners
internal import SidecarTelemetry
internal import Logging
internal import NIOCore
internal import NIOEmbedded
internal import NIOHTTP1

/// The HTTP API reads a client's bytes in one way, no matter how the network splits them: the same requests get the
/// same responses.
enum ListenerProperties {
    /// Checks that the responses do not depend on how the bytes are split.
    /// - Parameter input: a byte that determines the size of the pieces, then the bytes that the client sends.
    static func check(_ input: [UInt8]) throws(FuzzFinding) {
        guard let lengthByte = input.first else { return }
        let sent = Array(input.dropFirst())
        let unsplit = try responses(to: [sent])
        let length = Int(lengthByte) + 1
        let pieces = stride(from: 0, to: sent.count, by: length).map { Array(sent[$0..<min($0 + length, sent.count)]) }
        let inPieces = try responses(to: pieces)
        // HTTP/2 windows are opened as bytes are read, so the responses depend on the pieces.
        guard !sent.starts(with: Array("PRI * HTTP/2.0".utf8)) else { return }
        try expect(comparable(unsplit) == comparable(inPieces), "in one piece: \(unsplit); in pieces of \(length): \(inPieces)")
    }

    /// Removes the date, and interim responses, which depend on whether a body has arrived already.
    private static func comparable(_ responses: String) -> String {
        responses.replacing("HTTP/1.1 100 Continue\r\n\r\n", with: "")
            .split(separator: "\r\n", omittingEmptySubsequences: false).filter { !$0.hasPrefix("Date:") }.joined(
                separator: "\r\n")
    }

    /// Returns all bytes of the responses until the client has sent everything and closes.
    private static func responses(to pieces: [[UInt8]]) throws(FuzzFinding) -> String {
        let channel = EmbeddedChannel()
        defer {
            _ = try? channel.finish(acceptAlreadyClosed: true)
            channel.embeddedEventLoop.run()
        }
        do {
            try channel.connect(to: SocketAddress(unixDomainSocketPath: "/fuzz")).wait()
            try api(on: channel.embeddedEventLoop).serve(channel)
        } catch {
            throw FuzzFinding("the listener does not open: \(error)")
        }
        var output = ByteBuffer()
        for piece in pieces where channel.isActive {
            // The connection closes with an error if the bytes are not HTTP.
            _ = try? channel.writeInbound(ByteBuffer(bytes: piece))
            channel.embeddedEventLoop.run()
            while let part = try? channel.readOutbound(as: ByteBuffer.self) { output.writeImmutableBuffer(part) }
        }
        // Every request is echoed at most once, and a refusal is short.
        let limit = 2 * pieces.reduce(0) { $0 + $1.count } + 1024 * (1 + pieces.reduce(0) { $0 + $1.count { $0 == 0x0A } })
        try expect(output.readableBytes <= 8 * limit, "the reply to \(pieces) has \(output.readableBytes) bytes")
        return String(buffer: output)
    }

    /// Makes an API that echoes requests: complete ones at `/echo`, streamed ones below `/proxy`.
    private static func api(on eventLoop: any EventLoop) -> HTTPListenerContext {
        let routes = [
            HTTPRoute(.POST, "/echo", for: .anyone) { call, responder in
                responder(.text(String(buffer: call.body), mediaType: "text/plain"))
            },
            HTTPRoute(relayedBelow: "/proxy", "rest") { _, _, responder in Echo(responder) },
        ]
        return HTTPListenerContext(
            router: HTTPRouter(routes: routes, metrics: PrometheusRegistry()),
            gate: HTTPGate(access: AccessControl(keys: []), hosts: ["a"]), isTLS: false, maximumConnections: 4,
            firstRequestTimeout: .seconds(10), idleTimeout: .seconds(60),
            // A stopped clock: no slice ends, so everything is answered immediately.
            scheduler: SliceScheduler(eventLoop: eventLoop) { 0 },
            logger: Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() })
    }

    private final class Echo: HTTPRelay {
        private let responder: HTTPResponder
        private var body = ByteBuffer()

        init(_ responder: HTTPResponder) {
            self.responder = responder
        }

        func start() {}

        func partReceived(_ part: ByteBuffer) { body.writeImmutableBuffer(part) }

        func endReceived(_ trailers: HTTPHeaders?) {
            responder.write(.ok, ["Content-Length": "\(body.readableBytes)"])
            responder.write(body)
            responder.writeEnd(nil)
        }

        func readCompleted() {}

        func writabilityChanged(_ isWritable: Bool) {}

        func timerFired() {}
    }
}

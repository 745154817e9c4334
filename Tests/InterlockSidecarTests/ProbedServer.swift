import InterlockProcesses
import NIOCore
import NIOPosix
import NIOSSL
import NIOConcurrencyHelpers

/// A service that answers probes as a test specifies and records their requests.
final class ProbedServer: Sendable {
    enum Response: Sendable {
        /// An HTTP response with the length of its body.
        case http(Int, headers: [String] = [], body: String = "")
        /// Raw bytes, after which the connection stays open.
        case bytes(String)
        /// No response; the connection is closed.
        case close
    }

    private struct State {
        var answer = Response.http(200, body: "ok")
        var requests: [String] = []
        var connectionCount = 0
        var open = 0
    }

    private let state = NIOLockedValueBox(State())

    /// No bytes at all on a connection that stays open.
    static let silence = Response.bytes("")

    /// Sets the response to all further requests.
    func answer(_ answer: Response) {
        state.withLockedValue { $0.answer = answer }
    }

    /// The heads of the requests received so far.
    var requests: [String] { state.withLockedValue { $0.requests } }
    /// The number of clients accepted so far.
    var connectionCount: Int { state.withLockedValue { $0.connectionCount } }
    /// Whether every connection is closed.
    var isIdle: Bool { state.withLockedValue { $0.open == 0 } }

    /// Runs `body` with a server on a free port of all local addresses, such as 127.0.0.1 and 127.0.0.2.
    static func with<Result>(
        certificate: TestCertificate? = nil, _ body: (ProbedServer, Int) async throws -> Result
    ) async throws -> Result {
        let server = ProbedServer()
        let context = try certificate.map { certificate in
            try NIOSSLContext(
                configuration: .makeServerConfiguration(
                    certificateChain: try NIOSSLCertificate.fromPEMFile(certificate.certificatePath).map { .certificate($0) },
                    privateKey: .privateKey(try NIOSSLPrivateKey(file: certificate.keyPath, format: .pem))))
        }
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    if let context { try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context)) }
                    try channel.pipeline.syncOperations.addHandler(ProbedConnection(server: server))
                }
            }
            .bind(host: "0.0.0.0", port: 0).get()
        do {
            let result = try await body(server, listener.localAddress?.port ?? 0)
            try await listener.close()
            return result
        } catch {
            try await listener.close()
            throw error
        }
    }

    fileprivate func connected() {
        state.withLockedValue { state in
            state.connectionCount += 1
            state.open += 1
        }
    }

    fileprivate func disconnected() {
        state.withLockedValue { $0.open -= 1 }
    }

    fileprivate func record(_ head: String) -> Response {
        state.withLockedValue { state in
            state.requests.append(head)
            return state.answer
        }
    }
}

private final class ProbedConnection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private let server: ProbedServer
    private var received = ""

    init(server: ProbedServer) {
        self.server = server
    }

    func channelActive(context: ChannelHandlerContext) {
        server.connected()
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        server.disconnected()
        context.fireChannelInactive()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received += String(buffer: unwrapInboundIn(data))
        guard let end = received.firstRange(of: "\r\n\r\n") else { return }
        let head = String(received[..<end.lowerBound])
        received = ""
        switch server.record(head) {
        case .http(let status, let headers, let body):
            let lines = ["HTTP/1.1 \(status) Answer", "Content-Length: \(body.utf8.count)"] + headers
            send(lines.joined(separator: "\r\n") + "\r\n\r\n" + body, context)
        case .bytes(let text): send(text, context)
        case .close: context.close(promise: nil)
        }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    private func send(_ text: String, _ context: ChannelHandlerContext) {
        context.writeAndFlush(wrapOutboundOut(ByteBuffer(string: text)), promise: nil)
    }
}

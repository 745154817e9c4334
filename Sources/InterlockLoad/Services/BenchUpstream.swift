internal import InterlockJudge
internal import InterlockCore
internal import Interlock
package import NIOCore
internal import NIOHTTP1
internal import NIOPosix

/// The upstream of a fleet that the harness starts: an HTTP server on the loopback interface that answers every request
/// immediately with 200, or with 503 for failed calls in a bad phase.
package final class BenchUpstream: Sendable {
    private let listener: any Channel

    /// The URL for the sidecars.
    package let url: String

    private init(listener: any Channel, port: Int) {
        self.listener = listener
        url = "http://127.0.0.1:\(port)"
    }

    /// Starts an upstream.
    /// - Parameters:
    ///   - group: the event loops of the server, preferably other ones than that of the run.
    ///   - phases: the bad phases, counted from now on; `nil` to fail no call.
    ///   - seed: the seed that determines which requests of a bad phase fail.
    /// - Throws: an error if the server cannot listen.
    package static func start(
        on group: any EventLoopGroup, phases: FailurePhases? = nil, seed: UInt64 = 1
    ) async throws -> BenchUpstream {
        let start = TimeSource.system.now()
        let listener = try await ServerBootstrap(group: group)
            .serverChannelOption(.backlog, value: 1024)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.configureHTTPServerPipeline()
                    try channel.pipeline.syncOperations.addHandler(
                        UpstreamHandler(phases: phases, start: start, random: SeededRandom(seed: seed)))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        guard let port = listener.localAddress?.port else { throw LoadError("the upstream of this run has no port") }
        return BenchUpstream(listener: listener, port: port)
    }

    /// Stops accepting connections. Open ones stay open.
    package func close() async throws {
        try await listener.close()
    }
}

/// Answers the requests of one connection.
private final class UpstreamHandler: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = HTTPServerResponsePart

    private let phases: FailurePhases?
    private let start: Instant
    private var random: SeededRandom

    init(phases: FailurePhases?, start: Instant, random: SeededRandom) {
        self.phases = phases
        self.start = start
        self.random = random
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // Request bodies are ignored.
        guard case .end = unwrapInboundIn(data) else { return }
        let status: HTTPResponseStatus = failsNextCall() ? .serviceUnavailable : .ok
        let head = HTTPResponseHead(version: .http1_1, status: status, headers: ["Content-Length": "0"])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    /// Draws whether the next call fails.
    private func failsNextCall() -> Bool {
        guard let phases else { return false }
        let nanoseconds = TimeSource.system.now().nanoseconds - start.nanoseconds
        return phases.isBad(atNanoseconds: nanoseconds) && random.happens(phases.failureFraction)
    }
}

internal import InterlockCore
internal import NIOConcurrencyHelpers
internal import NIOCore
internal import NIOPosix

/// A connection that is made and closed.
struct TCPProbe: Sendable {
    let host: String
    let port: Int
    let timeout: Duration
    let eventLoopGroup: any EventLoopGroup

    /// - Throws: whatever kept the connection from standing.
    func ask() async throws -> ProbeFinding {
        let attempts = ConnectionAttempts()
        // Ends also while the name is still being resolved, which nothing stops.
        let ended = eventLoopGroup.any().makePromise(of: (any Channel).self)
        let connected = ClientBootstrap(group: eventLoopGroup)
            // Not the deadline of the probe, which is kept elsewhere: what is left behind after that one.
            .connectTimeout(TimeAmount(timeout * 2))
            .channelInitializer { channel in
                attempts.add(channel)
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .connect(host: host, port: port)
        connected.cascade(to: ended)
        try await withTaskCancellationHandler {
            let channel = try await ended.futureResult.get()
            // Closed by whoever is first, and who comes second need not know.
            try? await channel.close()
        } onCancel: {
            attempts.cancel()
            ended.fail(CancellationError())
        }
        return .good
    }
}

/// The connections that are being tried, one for each address, until all of them are to end.
private final class ConnectionAttempts: Sendable {
    private struct State {
        var channels: [any Channel] = []
        var isCancelled = false
    }

    private let state = NIOLockedValueBox(State())

    func add(_ channel: any Channel) {
        let isCancelled = state.withLockedValue { state in
            state.channels.append(channel)
            return state.isCancelled
        }
        if isCancelled { channel.close(promise: nil) }
    }

    func cancel() {
        let channels = state.withLockedValue { state in
            state.isCancelled = true
            return state.channels
        }
        for channel in channels { channel.close(promise: nil) }
    }
}

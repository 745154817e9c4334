internal import InterlockJudge
internal import NIOCore
internal import NIOPosix

/// A TCP proxy of ours between one sidecar and Redis, on a port of 127.0.0.1 that stays: it delays, trickles, holds back and
/// breaks off. It duplicates nothing and changes nothing.
///
/// Each connection keeps at most some 1 MB on its way in either direction; then its source is no longer read. While Redis is
/// away a connection is closed as soon as it is opened. What a sidecar had sent before it closed still reaches Redis later, as
/// on a network that heals.
public final class FaultProxy: Sendable {
    /// How bytes pass.
    public struct Mode: Hashable, Sendable {
        /// From the sidecar to Redis.
        public var requests: FaultFlow
        /// From Redis to the sidecar.
        public var answers: FaultFlow
        /// Whether new connections are reset at once. Otherwise they are accepted, and hang while a direction is held.
        public var refusesConnections: Bool

        public init(requests: FaultFlow, answers: FaultFlow, refusesConnections: Bool = false) {
            self.requests = requests
            self.answers = answers
            self.refusesConnections = refusesConnections
        }

        /// As if it were not there.
        public static let free = Mode(requests: .free, answers: .free)

        /// Nothing passes.
        public static func partition(refusesConnections: Bool = false) -> Mode {
            Mode(requests: .held, answers: .held, refusesConnections: refusesConnections)
        }
    }

    public let port: Int
    private let eventLoop: any EventLoop
    private let listener: any Channel
    private let relays: NIOLoopBound<FaultRelays>

    private init(port: Int, eventLoop: any EventLoop, listener: any Channel, relays: NIOLoopBound<FaultRelays>) {
        self.port = port
        self.eventLoop = eventLoop
        self.listener = listener
        self.relays = relays
    }

    /// Begins to listen; every byte passes at first. Close it at the end.
    /// - Parameters:
    ///   - redisPort: of 127.0.0.1. Nobody needs to listen there yet.
    ///   - seed: decides the jitter.
    /// - Throws: what NIO throws when it cannot listen.
    public static func start(redisPort: Int, seed: UInt64 = 0) async throws -> FaultProxy {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let relays = try await eventLoop.submit {
            NIOLoopBound(
                FaultRelays(eventLoop: eventLoop, redisPort: redisPort, random: SeededRandom(seed: seed)), eventLoop: eventLoop)
        }.get()
        let listener = try await FaultRelays.listener(on: eventLoop, relays).bind(host: "127.0.0.1", port: 0).get()
        guard let port = listener.localAddress?.port else {
            try await listener.close()
            throw FleetError("a proxy that listens on 127.0.0.1 has no port")
        }
        return FaultProxy(port: port, eventLoop: eventLoop, listener: listener, relays: relays)
    }

    /// From now on bytes pass like this, on all connections; in effect when it returns.
    public func set(_ mode: Mode) async {
        await onLoop { $0.set(mode) }
    }

    /// Breaks every connection there is.
    public func breakConnections(_ manner: ConnectionBreak) async {
        await onLoop { $0.breakAll(manner) }
    }

    /// Closes the port and every connection.
    public func close() async {
        // It fails only when it is closed already.
        try? await listener.close()
        await onLoop { $0.closeAll() }
    }

    private func onLoop(_ work: @escaping @Sendable (FaultRelays) -> Void) async {
        await withCheckedContinuation { continuation in
            eventLoop.execute {
                work(self.relays.value)
                continuation.resume()
            }
        }
    }
}

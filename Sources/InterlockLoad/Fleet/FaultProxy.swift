internal import InterlockCore
internal import NIOCore
internal import NIOPosix

/// A TCP proxy of ours between one sidecar and Redis, on a port of 127.0.0.1 that stays: it delays, trickles, holds back and
/// breaks off. It duplicates nothing and changes nothing.
///
/// Each connection keeps at most some 1 MB on its way in either direction; then its source is no longer read. While Redis is
/// away a connection is closed as soon as it is opened. What a sidecar had sent before it closed still reaches Redis later, as
/// on a network that heals.
package final class FaultProxy: Sendable {
    /// How bytes pass.
    package struct Mode: Hashable, Sendable {
        /// From the sidecar to Redis.
        package var requests: FaultFlow
        /// From Redis to the sidecar.
        package var answers: FaultFlow
        /// Whether new connections are reset at once. Otherwise they are accepted, and hang while a direction is held.
        package var refusesConnections: Bool

        package init(requests: FaultFlow, answers: FaultFlow, refusesConnections: Bool = false) {
            self.requests = requests
            self.answers = answers
            self.refusesConnections = refusesConnections
        }

        /// As if it were not there.
        package static let free = Mode(requests: .free, answers: .free)

        /// Nothing passes.
        package static func partition(refusesConnections: Bool = false) -> Mode {
            Mode(requests: .held, answers: .held, refusesConnections: refusesConnections)
        }
    }

    package let port: Int
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
    ///   - redisPort: of 127.0.0.1. Redis need not listen there yet.
    ///   - seed: decides the jitter.
    /// - Throws: what NIO throws when it cannot listen.
    package static func start(redisPort: Int, seed: UInt64 = 0) async throws -> FaultProxy {
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
    package func set(_ mode: Mode) async {
        await onLoop { $0.set(mode) }
    }

    /// Breaks every connection there is.
    package func breakConnections(_ manner: ConnectionBreak) async {
        await onLoop { $0.breakAll(manner) }
    }

    /// Closes the port and every connection.
    package func close() async {
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

/// The connections of a `FaultProxy`. Confined to its event loop.
final class FaultRelays {
    /// A sidecar has a handful; one that keeps connecting while nothing passes has some more.
    private static let mostConnections = 1024
    private static let connectTimeout = TimeAmount.seconds(10)
    /// What the kernel keeps of what is not read, in bytes; it takes twice as much.
    private static let receiveBuffer: Int = 1 << 17

    private let eventLoop: any EventLoop
    private let redisPort: Int
    private var mode = FaultProxy.Mode.free
    private var random: SeededRandom
    private var relays: [ObjectIdentifier: FaultRelay] = [:]

    init(eventLoop: any EventLoop, redisPort: Int, random: SeededRandom) {
        self.eventLoop = eventLoop
        self.redisPort = redisPort
        self.random = random
    }

    func accepted(_ sidecar: any Channel) throws {
        let id = ObjectIdentifier(sidecar)
        let relay = FaultRelay(sidecar: sidecar, mode: mode, random: random.split()) { [weak self] in self?.relays[id] = nil }
        guard !mode.refusesConnections, relays.count < Self.mostConnections else {
            relay.reset()
            return
        }
        relays[id] = relay
        try sidecar.pipeline.syncOperations.addHandler(FaultRelayHandler(relay, .sidecar))
        connect(relay)
    }

    func set(_ mode: FaultProxy.Mode) {
        self.mode = mode
        for relay in relays.values {
            relay.change(to: mode)
            connect(relay)
        }
    }

    func breakAll(_ manner: ConnectionBreak) {
        for relay in relays.values { relay.break(manner) }
    }

    func closeAll() {
        for relay in relays.values { relay.close() }
    }

    private func connect(_ relay: FaultRelay) {
        guard relay.wantsRedis else { return }
        relay.connectingToRedis()
        let bound = NIOLoopBound(relay, eventLoop: eventLoop)
        ClientBootstrap(group: eventLoop)
            .connectTimeout(Self.connectTimeout)
            .channelOption(.autoRead, value: false)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.socketOption(.so_rcvbuf), value: Self.receiveBuffer)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(FaultRelayHandler(bound.value, .redis))
                }
            }
            .connect(host: "127.0.0.1", port: redisPort)
            .assumeIsolated()
            .whenComplete { relay.connected($0) }
    }

    /// What accepted connections are set up with.
    static func listener(on eventLoop: any EventLoop, _ relays: NIOLoopBound<FaultRelays>) -> ServerBootstrap {
        ServerBootstrap(group: eventLoop)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.autoRead, value: false)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.socketOption(.so_rcvbuf), value: receiveBuffer)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try relays.value.accepted(channel) }
            }
    }
}

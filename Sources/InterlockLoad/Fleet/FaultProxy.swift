internal import InterlockCore
internal import NIOCore
internal import NIOPosix

/// A TCP proxy between one sidecar and Redis, on a fixed port of 127.0.0.1. It delays, throttles or holds back bytes,
/// and breaks connections. It never duplicates or changes bytes.
///
/// Each connection buffers about 1 MB in either direction, then stops reading from its source. While Redis is down, the
/// proxy closes new connections immediately. Bytes that a sidecar sent before it closed a connection still reach Redis
/// later, as on a network that recovers.
package final class FaultProxy: Sendable {
    /// How the proxy treats bytes and new connections.
    package struct Mode: Hashable, Sendable {
        /// The flow from the sidecar to Redis.
        package var requests: FaultFlow
        /// The flow from Redis to the sidecar.
        package var replies: FaultFlow
        /// Whether the proxy resets new connections immediately. Otherwise it accepts them, and they hang while a
        /// direction is blocked.
        package var refusesConnections: Bool

        package init(requests: FaultFlow, replies: FaultFlow, refusesConnections: Bool = false) {
            self.requests = requests
            self.replies = replies
            self.refusesConnections = refusesConnections
        }

        /// The mode in which all bytes pass immediately.
        package static let free = Mode(requests: .free, replies: .free)

        /// Returns the mode that lets no byte pass.
        package static func partition(refusesConnections: Bool = false) -> Mode {
            Mode(requests: .blocked, replies: .blocked, refusesConnections: refusesConnections)
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

    /// Starts a proxy that passes all bytes on. The caller must `close()` it.
    /// - Parameters:
    ///   - redisPort: the port of Redis on 127.0.0.1. Redis need not listen yet.
    ///   - seed: the seed of the jitter.
    /// - Throws: an error of NIO if the proxy cannot listen.
    package static func start(redisPort: Int, seed: UInt64 = 0) async throws -> FaultProxy {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let relays = try await eventLoop.submit {
            NIOLoopBound(
                FaultRelays(eventLoop: eventLoop, redisPort: redisPort, random: SeededRandom(seed: seed)), eventLoop: eventLoop)
        }.get()
        let listener = try await FaultRelays.listener(on: eventLoop, relays).bind(host: "127.0.0.1", port: 0).get()
        guard let port = listener.localAddress?.port else {
            try await listener.close()
            throw FleetError("the proxy on 127.0.0.1 has no port")
        }
        return FaultProxy(port: port, eventLoop: eventLoop, listener: listener, relays: relays)
    }

    /// Applies the mode to all connections, existing and new, before it returns.
    package func set(_ mode: Mode) async {
        await onLoop { $0.set(mode) }
    }

    /// Breaks every open connection.
    package func breakConnections(_ manner: ConnectionBreak) async {
        await onLoop { $0.breakAll(manner) }
    }

    /// Closes the port and every connection.
    package func close() async {
        // Closing fails only if the listener is already closed.
        try? await listener.close()
        await onLoop { $0.closeAll() }
    }

    /// Runs `body` on the event loop, and returns when it has ended.
    private func onLoop(_ body: @escaping @Sendable (FaultRelays) -> Void) async {
        await withCheckedContinuation { continuation in
            eventLoop.execute {
                body(self.relays.value)
                continuation.resume()
            }
        }
    }
}

/// The connections of a `FaultProxy`. Confined to its event loop.
final class FaultRelays {
    /// The maximum number of connections, far above what a sidecar needs, even if it reconnects again and again.
    private static let maximumConnections = 1024
    private static let connectTimeout = TimeAmount.seconds(10)
    /// The size of the receive buffer that is requested from the kernel, in bytes. The kernel doubles it.
    private static let receiveBufferSize: Int = 1 << 17

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

    /// Handles a new connection of the sidecar.
    func connectionAccepted(_ sidecar: any Channel) throws {
        let id = ObjectIdentifier(sidecar)
        let relay = FaultRelay(sidecar: sidecar, mode: mode, random: random.split()) { [weak self] in self?.relays[id] = nil }
        guard !mode.refusesConnections, relays.count < Self.maximumConnections else {
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
        relay.redisConnectBegan()
        let boundRelay = NIOLoopBound(relay, eventLoop: eventLoop)
        ClientBootstrap(group: eventLoop)
            .connectTimeout(Self.connectTimeout)
            .channelOption(.autoRead, value: false)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .channelOption(.tcpOption(.tcp_nodelay), value: 1)
            .channelOption(.socketOption(.so_rcvbuf), value: Self.receiveBufferSize)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(FaultRelayHandler(boundRelay.value, .redis))
                }
            }
            .connect(host: "127.0.0.1", port: redisPort)
            .assumeIsolated()
            .whenComplete { relay.redisConnectEnded($0) }
    }

    /// Returns the bootstrap of the listener, which passes each new connection to `relays`.
    static func listener(on eventLoop: any EventLoop, _ relays: NIOLoopBound<FaultRelays>) -> ServerBootstrap {
        ServerBootstrap(group: eventLoop)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.autoRead, value: false)
            .childChannelOption(.allowRemoteHalfClosure, value: true)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(.socketOption(.so_rcvbuf), value: receiveBufferSize)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture { try relays.value.connectionAccepted(channel) }
            }
    }
}

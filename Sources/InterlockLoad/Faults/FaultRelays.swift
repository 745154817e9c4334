internal import InterlockJudge
internal import NIOCore
internal import NIOPosix

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

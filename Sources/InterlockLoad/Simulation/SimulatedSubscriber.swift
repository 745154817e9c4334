internal import Hiredis
internal import InterlockCore

/// A sidecar's connection for subscriptions: `RedisSubscriber` of Hiredis, as it behaves towards its users. What is published
/// while it is down is lost.
final class SimulatedSubscriber {
    private static let checkInterval = RedisSubscriber.defaultCheckInterval.wholeMilliseconds

    private let world: SimulatedWorld
    private let server: SimulatedRedis
    private let node: SimulatedWorld.NodeID
    private let link: SimulatedRedisLink
    private let channels: [String]
    private var check: SimulatedWorld.EventID?

    /// All channels are subscribed: the first time, and after each loss.
    var onSubscribed: (() -> Void)?
    /// Another connection's tracking can be redirected to this one.
    var onHearingChanges: ((SimulatedConnection) -> Void)?
    var onMessage: ((ModelRedis.Message) -> Void)?
    /// A key that another connection tracks was changed.
    var onChanged: ((_ key: String) -> Void)?
    var onDown: (() -> Void)?

    init(
        world: SimulatedWorld, server: SimulatedRedis, path: NetworkPath, node: SimulatedWorld.NodeID, channels: [String]
    ) {
        self.world = world
        self.server = server
        self.node = node
        self.channels = channels
        link = SimulatedRedisLink(world: world, server: server, path: path, node: node)
        link.onUp = { [unowned self] in subscribe(on: $0) }
        link.onDown = { [unowned self] in
            if let check { world.cancel(check) }
            check = nil
            onDown?()
        }
    }

    func start() {
        link.start()
    }

    private func subscribe(on connection: SimulatedConnection) {
        connection.onPush = { [unowned self] push in
            link.heard()
            switch push {
            case .message(let message): onMessage?(message)
            case .changed(let key): onChanged?(key)
            }
        }
        link.sendOnConnection { [server, channels] in
            server.subscribe($0, to: channels)
        } completion: { [unowned self] in
            guard case .success = $0 else { return }
            onSubscribed?()
            onHearingChanges?(connection)
        }
        planCheck()
    }

    private func planCheck() {
        let instant = world.now.advanced(byMilliseconds: Self.checkInterval)
        check = world.schedule(at: instant, on: node, isTimer: true) { [unowned self] in
            guard link.lastRead.advanced(byMilliseconds: 2 * Self.checkInterval) > world.now else { return link.giveUp() }
            link.sendOnConnection({ _ in }, completion: { _ in })
            planCheck()
        }
    }
}

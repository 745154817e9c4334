internal import DequeModule
internal import RedisClient

/// The sharded channels on which this sidecar receives messages about its turns on a cluster: one per lock that it
/// waits for, on the lock's server. A sharded message reaches only that server; a message without a sharded subscriber
/// is published to all servers. Confined to the coordinator's event loop.
///
/// A lock often gets another waiter soon, so its channel stays subscribed for a while. The number of channels is
/// bounded by the number of locks with waiters plus `maximumIdle`.
final class WakeChannels {
    private let keys: KeySpace
    private let id: String
    private var subscribed: Set<String> = []
    /// The locks without waiters whose channels are still subscribed, oldest first.
    private var idle: Deque<String> = []
    private static let maximumIdle = 256

    /// The subscriber; `nil` if channels are not sharded. Weak, because the subscriber refers to the locks, which
    /// own this object.
    weak var receiver: (any RedisReceiver)?

    init(keys: KeySpace, id: String) {
        self.keys = keys
        self.id = id
    }

    /// Subscribes to the channel of a lock that has a waiter.
    func subscribe(for name: String) {
        guard let receiver else { return }
        guard subscribed.insert(name).inserted else { return idle.removeAll { $0 == name } }
        receiver.subscribe(shardChannel: keys.wake(id, ofLock: name), true)
    }

    /// Marks the channel of a lock without waiters as idle. Unsubscribes from the oldest idle channel if there are too
    /// many.
    func unsubscribeLater(for name: String) {
        guard let receiver, subscribed.contains(name) else { return }
        idle.removeAll { $0 == name }
        idle.append(name)
        guard idle.count > Self.maximumIdle else { return }
        let oldest = idle.removeFirst()
        subscribed.remove(oldest)
        receiver.subscribe(shardChannel: keys.wake(id, ofLock: oldest), false)
    }
}

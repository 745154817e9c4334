internal import DequeModule
internal import RedisClient

/// The sharded channels on which this sidecar receives messages about its turns on a cluster: one per lock that it
/// waits for, on the lock's own server. They save the cluster a message to each of its servers; a message that has no
/// sharded subscriber is published to all. Confined to the coordinator's event loop.
///
/// A lock is often waited for again soon, so its channel is kept for a while. Bounded by the number of locks with
/// waiters plus `maximumKept`.
final class WakeChannels {
    private let keys: KeySpace
    private let id: String
    private var heard: Set<String> = []
    /// The locks without waiters whose channels are kept, oldest first.
    private var kept: Deque<String> = []
    private static let maximumKept = 256

    /// The subscriber, or `nil` if channels are not sharded. Weak, because the subscriber refers to the locks, which
    /// own this object.
    weak var listener: (any RedisListener)?

    init(keys: KeySpace, id: String) {
        self.keys = keys
        self.id = id
    }

    /// Subscribes to the channel of a lock that has a waiter.
    func waits(for name: String) {
        guard let listener else { return }
        guard heard.insert(name).inserted else { return kept.removeAll { $0 == name } }
        listener.subscribe(shardChannel: keys.wake(id, ofLock: name), true)
    }

    /// Releases the channel of a lock that has no more waiters.
    func waitIsOver(for name: String) {
        guard let listener, heard.contains(name) else { return }
        kept.removeAll { $0 == name }
        kept.append(name)
        guard kept.count > Self.maximumKept else { return }
        let oldest = kept.removeFirst()
        heard.remove(oldest)
        listener.subscribe(shardChannel: keys.wake(id, ofLock: oldest), false)
    }
}

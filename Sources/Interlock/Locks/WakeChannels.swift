internal import DequeModule
internal import RedisClient

/// Where this sidecar hears of its turns on a cluster that has channels of slots: one for each lock that somebody waits for here, at the
/// lock's own server. They save the cluster a message to each of its servers; what is told where nobody listens is told everywhere.
/// Confined to the coordinator's event loop.
///
/// A lock that was waited for is soon waited for again, so its channel is kept for a while. Bounded by the locks that are waited for
/// and `mostKept` more.
final class WakeChannels {
    private let keys: KeySpace
    private let id: String
    private var heard: Set<String> = []
    /// Of locks that nobody waits for at the moment, the oldest first.
    private var kept: Deque<String> = []
    private static let mostKept = 256

    /// `nil`: there are none. Weak: it tells the locks of changes, which own this.
    weak var listener: (any RedisListener)?

    init(keys: KeySpace, id: String) {
        self.keys = keys
        self.id = id
    }

    /// Somebody waits for this lock.
    func waits(for name: String) {
        guard let listener else { return }
        guard heard.insert(name).inserted else { return kept.removeAll { $0 == name } }
        listener.hear(shardChannel: keys.wake(id, ofLock: name), true)
    }

    /// Nobody waits for it any more.
    func waitIsOver(for name: String) {
        guard let listener, heard.contains(name) else { return }
        kept.removeAll { $0 == name }
        kept.append(name)
        guard kept.count > Self.mostKept else { return }
        let oldest = kept.removeFirst()
        heard.remove(oldest)
        listener.hear(shardChannel: keys.wake(id, ofLock: oldest), false)
    }
}

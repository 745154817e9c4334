/// Hands each event to whoever follows them here. Confined to the coordinator's event loop; only the subscriptions may be
/// touched from elsewhere.
final class EventFeed {
    typealias FollowerID = UInt64

    let subscriptions: EventSubscriptions
    private var followers: [FollowerID: (String) -> Void] = [:]
    private var lastID: FollowerID = 0

    init(subscriptions: EventSubscriptions) {
        self.subscriptions = subscriptions
    }

    /// `follower` must not block: a slow one buffers and drops for itself.
    func add(_ follower: @escaping (_ json: String) -> Void) -> FollowerID {
        lastID += 1
        followers[lastID] = follower
        return lastID
    }

    func remove(_ id: FollowerID) {
        followers[id] = nil
    }

    func publish(_ event: ReceivedEvent) {
        subscriptions.publish(event)
        for follower in followers.values { follower(event.message.json) }
    }
}

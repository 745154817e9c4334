/// Hands each event to whoever follows them here. Confined to the coordinator's event loop; only the subscriptions may be
/// touched from elsewhere.
final class EventFeed {
    typealias FollowerID = UInt64

    let subscriptions: EventSubscriptions
    /// In the order in which they came.
    private var followers: [(id: FollowerID, follower: (String) -> Void)] = []
    private var lastID: FollowerID = 0

    init(subscriptions: EventSubscriptions) {
        self.subscriptions = subscriptions
    }

    /// `follower` must not block: a slow one buffers and drops for itself.
    func add(_ follower: @escaping (_ json: String) -> Void) -> FollowerID {
        lastID += 1
        followers.append((lastID, follower))
        return lastID
    }

    func remove(_ id: FollowerID) {
        followers.removeAll { $0.id == id }
    }

    func publish(_ event: ReceivedEvent) {
        subscriptions.publish(event)
        for (_, follower) in followers { follower(event.message.json) }
    }
}

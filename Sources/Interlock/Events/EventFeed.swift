internal import InterlockCore

/// Passes each event to its followers and subscriptions. Confined to the coordinator's event loop, except for the
/// subscriptions.
final class EventFeed {
    typealias FollowerID = UInt64

    let subscriptions: EventSubscriptions
    /// The followers, oldest first.
    private var followers: [(id: FollowerID, follower: (EventMessage, InterlockEvent<EventPayload>?) -> Void)] = []
    private var lastID: FollowerID = 0

    init(subscriptions: EventSubscriptions) {
        self.subscriptions = subscriptions
    }

    /// Adds a follower, which must not block.
    func add(_ follower: @escaping (EventMessage, InterlockEvent<EventPayload>?) -> Void) -> FollowerID {
        lastID += 1
        followers.append((lastID, follower))
        return lastID
    }

    func remove(_ id: FollowerID) {
        followers.removeAll { $0.id == id }
    }

    func publish(_ event: ReceivedEvent) {
        subscriptions.publish(.event(event))
        for (_, follower) in followers { follower(event.message, event.event) }
    }
}

/// Hands each message of the event channel to whoever follows it here. Confined to the coordinator's event loop.
final class EventFeed {
    typealias FollowerID = UInt64

    private var followers: [FollowerID: (String) -> Void] = [:]
    private var lastID: FollowerID = 0

    var count: Int { followers.count }

    /// `follower` must not block: a slow one buffers and drops for itself.
    func add(_ follower: @escaping (_ json: String) -> Void) -> FollowerID {
        lastID += 1
        followers[lastID] = follower
        return lastID
    }

    func remove(_ id: FollowerID) {
        followers[id] = nil
    }

    func publish(_ json: String) {
        for follower in followers.values { follower(json) }
    }
}

internal import DequeModule
internal import InterlockCore

/// The permits of one service that this sidecar gave and whose outcome it awaits. Bounded in age; their number is its owner's
/// to bound.
struct PermitTable {
    struct Permit {
        unowned let service: GuardedService
        /// Of the breaker when the permit was given: outcomes of another one say nothing of the present.
        var generation: Int64
        /// It is one of the fleet's trial permits.
        var isTrial: Bool
        /// It tries what this sidecar has opened for itself.
        var isOwnTrial: Bool
        /// Whose call it is.
        var subject: String?
        var grantedAt: Instant
        var expiresAt: Instant
    }

    private var permits: [PermitID: Permit] = [:]
    /// In the order in which they lapse; those that were reported stay until they come to the front.
    private var order: Deque<(id: PermitID, expiresAt: Instant)> = []

    var count: Int { permits.count }

    /// When the next one lapses, if none is reported before.
    var nextLapse: Instant? { order.first?.expiresAt }

    /// O(1), but for the first ones after the lifetime was shortened.
    mutating func insert(_ permit: Permit, id: PermitID) {
        permits[id] = permit
        var place = order.count
        while place > 0, order[place - 1].expiresAt > permit.expiresAt { place -= 1 }
        order.insert((id, permit.expiresAt), at: place)
        if order.count > 1024, order.count > 2 * permits.count { order.removeAll { permits[$0.id] == nil } }
    }

    /// Takes a permit out, whatever its age.
    mutating func remove(_ id: PermitID) -> Permit? {
        guard let permit = permits.removeValue(forKey: id) else { return nil }
        dropReported()
        return permit
    }

    /// Takes one out that has lapsed; `nil`: there is none.
    mutating func removeLapsed(now: Instant) -> Permit? {
        while let oldest = order.first, oldest.expiresAt <= now {
            order.removeFirst()
            if let permit = permits.removeValue(forKey: oldest.id) { return permit }
        }
        return nil
    }

    private mutating func dropReported() {
        while let oldest = order.first, permits[oldest.id] == nil { order.removeFirst() }
    }
}

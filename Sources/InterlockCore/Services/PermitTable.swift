internal import DequeModule

/// The permits of one service that this sidecar has issued and whose outcomes have not been reported. Each lapses at
/// the end of its lifetime. The owner of the table limits their number.
package struct PermitTable: Sendable {
    package struct Permit: Sendable {
        /// The breaker's generation when the permit was issued. The outcome counts under this generation only.
        package var generation: Int64
        /// Whether this is one of the fleet's trial permits.
        var isTrial: Bool
        /// Whether this is a local trial, made without one of the fleet's trial permits.
        var isLocalTrial: Bool
        var subject: String?
        package var grantedAt: Instant
        package var expiresAt: Instant
    }

    private var permits: [PermitID: Permit] = [:]
    /// The IDs in the order in which the permits lapse. A reported permit stays until it reaches the front.
    private var order: Deque<(id: PermitID, expiresAt: Instant)> = []

    package var count: Int { permits.count }

    /// The time at which the next permit lapses; `nil` if the table is empty.
    var nextLapse: Instant? { order.first?.expiresAt }

    /// Adds a permit. Amortized O(1), unless older permits lapse later because a reload has shortened the lifetime.
    mutating func insert(_ permit: Permit, id: PermitID) {
        permits[id] = permit
        var index = order.count
        while index > 0, order[index - 1].expiresAt > permit.expiresAt { index -= 1 }
        order.insert((id, permit.expiresAt), at: index)
        if order.count > 1024, order.count > 2 * permits.count { order.removeAll { permits[$0.id] == nil } }
    }

    /// Removes and returns a permit, even if it is past its lifetime; `nil` if it is unknown.
    package mutating func remove(_ id: PermitID) -> Permit? {
        guard let permit = permits.removeValue(forKey: id) else { return nil }
        dropReported()
        return permit
    }

    /// Removes and returns one lapsed permit; `nil` if no permit has lapsed.
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

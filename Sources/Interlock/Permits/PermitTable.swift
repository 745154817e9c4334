internal import DequeModule
internal import InterlockCore

/// The permits that this sidecar gave and whose outcome it awaits. Bounded in number and in age.
struct PermitTable {
    struct Permit {
        unowned let service: GuardedService
        /// Of the breaker when the permit was given: outcomes of another one say nothing of the present.
        var generation: Int64
        /// It is one of the fleet's trial permits.
        var isTrial: Bool
        var expiresAt: Instant
    }

    /// The most permits under way.
    static let capacity = 100_000

    private var permits: [PermitID: Permit] = [:]
    /// In order of issue, for the sweep; services differ in lifetime, so some stay a little longer.
    private var order: Deque<(id: PermitID, expiresAt: Instant)> = []

    var count: Int { permits.count }

    /// `false`: too many are under way.
    mutating func insert(_ permit: Permit, id: PermitID, now: Instant) -> Bool {
        while let oldest = order.first, oldest.expiresAt <= now || permits[oldest.id] == nil {
            order.removeFirst()
            permits[oldest.id] = nil
        }
        guard permits.count < Self.capacity else { return false }
        if order.count >= 2 * Self.capacity { order = Deque(order.filter { permits[$0.id] != nil }) }
        permits[id] = permit
        order.append((id, permit.expiresAt))
        return true
    }

    /// Takes a permit out, if it is known and not too old.
    mutating func remove(_ id: PermitID, now: Instant) -> Permit? {
        guard let permit = permits.removeValue(forKey: id), permit.expiresAt > now else { return nil }
        return permit
    }

    /// Drops the permits of a service that is gone.
    mutating func removeAll(of service: GuardedService) {
        permits = permits.filter { $0.value.service !== service }
    }
}

/// Refusals whose end is known, so that they need no Redis until then. Bounded: what does not fit is simply asked again.
struct RefusalMemory: Sendable {
    struct CounterID: Hashable, Sendable {
        var definition: Int
        var subject: String?
    }

    struct Refusal: Sendable {
        /// This cost was refused, and so is any higher one.
        var cost: Int64
        /// What was left in the window.
        var remaining: Int64
        /// Until when it holds for certain.
        var until: Instant
        /// When a caller who waits cannot be too early.
        var resetAt: Instant
        /// How many of this sidecar's calls wait for this counter: nobody overtakes them.
        var waiters = 0
    }

    /// The most subjects' counters that are remembered.
    static let capacity = 4096

    private var refusals: [CounterID: Refusal] = [:]

    var isEmpty: Bool { refusals.isEmpty }

    /// What holds for `cost` at `now`, if a refusal does.
    mutating func refusal(of counter: CounterID, cost: Int64, now: Instant) -> Refusal? {
        guard let refusal = refusals[counter] else { return nil }
        guard refusal.until > now else {
            if refusal.waiters == 0 { refusals[counter] = nil }
            return refusal.waiters > 0 && refusal.resetAt > now ? refusal : nil
        }
        return refusal.waiters > 0 || cost >= refusal.cost ? refusal : nil
    }

    mutating func remember(_ refusal: Refusal, of counter: CounterID, now: Instant) {
        var refusal = refusal
        if let known = refusals[counter] {
            refusal.waiters = known.waiters
            if known.until > now { refusal.cost = min(refusal.cost, known.cost) }
        } else if refusals.count >= Self.capacity {
            refusals = refusals.filter { $0.value.until > now || $0.value.waiters > 0 }
            guard refusals.count < Self.capacity else { return }
        }
        refusals[counter] = refusal
    }

    mutating func changeWaiters(of counter: CounterID, by change: Int) {
        guard var refusal = refusals[counter] else { return }
        refusal.waiters += change
        refusals[counter] = refusal
    }

    /// A give-back made room: the refusal no longer holds.
    mutating func forget(_ counter: CounterID) {
        guard var refusal = refusals[counter] else { return }
        guard refusal.waiters > 0 else { return refusals[counter] = nil }
        refusal.until = Instant(nanoseconds: .min)
        refusal.resetAt = refusal.until
        refusals[counter] = refusal
    }

    mutating func removeAll() {
        refusals.removeAll()
    }

    /// When a caller bound by `counter` may try again; `nil`: at once.
    func resetAt(of counter: CounterID) -> Instant? {
        refusals[counter]?.resetAt
    }
}

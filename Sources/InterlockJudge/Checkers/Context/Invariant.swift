/// An invariant that the product guarantees. Reports show the raw value.
package enum Invariant: String, Hashable, Sendable, Codable, CaseIterable {
    /// Each grant of a name has a higher fence than all earlier grants.
    case risingFences = "rising-fences"
    /// No two leases of a name are valid at the same time, unless both are shared or both hold slots of one semaphore.
    /// Readers and writers never overlap, and a semaphore has no more holders than slots.
    case exclusion
    /// No client learns that a lease is lost before it has ended.
    case keptLeases = "kept-leases"
    /// A resource that compares fences accepts no stale write, and refuses no holder.
    case fencedWrites = "fenced-writes"
    /// No limit is exceeded in any window.
    case limits
    /// A used-up limit refills after its window.
    case limitsRefill = "limits-refill"
    /// No call is permitted after a trip has reached its sidecar.
    case openBreakers = "open-breakers"
    /// A half-open breaker grants no more trial permits than configured.
    case trials
    /// Every operation ends in time.
    case answers
    /// A free lock is granted to a client that wants it. Waiting clients get it soon, a client that does not wait is
    /// not refused as "held", and a client that is refused as "held" does not hold it.
    case freeLocks = "free-locks"
    /// A lease can be renewed while Redis is full.
    case renewals
    /// A limit refuses no caller for more than a second after capacity became free.
    case refusals
    /// A half-open breaker reaches a decision.
    case halfOpen = "half-open"
    /// A forced state lasts until its end.
    case forcedStates = "forced-states"
    /// Every sidecar serves again within the recovery time after a fault.
    case recovery
    /// A permit that the proxy acquired for a call is returned when the call is over.
    case permits
    /// The outcome of a proxied call is reported at most once.
    case outcomes
    /// No byte of one answer appears in another.
    case bytes
    /// The history is consistent: every end has a beginning, and time does not go backward. The recorder guarantees
    /// this invariant, not the product. If it is violated, the other invariants were not fully checked.
    case sound = "sound-history"
}

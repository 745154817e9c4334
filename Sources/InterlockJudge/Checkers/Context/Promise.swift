package import InterlockCore

/// A promise of the product, as reports name it.
package enum Promise: String, Hashable, Sendable, Codable, CaseIterable {
    /// Each grant of a name has a higher fence than all earlier grants.
    case risingFences = "rising-fences"
    /// No two leases of a name are valid at once, unless both are shared or places of one semaphore. Readers and writers never
    /// overlap, and a semaphore has no more holders than places.
    case exclusion
    /// Nobody is told that a lease is lost which has not ended.
    case keptLeases = "kept-leases"
    /// A resource that compares fences accepts no stale write, and refuses no holder.
    case fencedWrites = "fenced-writes"
    /// No limit is exceeded in any window.
    case limits
    /// A used-up limit is full again after its window.
    case limitsRefill = "limits-refill"
    /// No call is permitted after a trip has reached its sidecar.
    case openBreakers = "open-breakers"
    /// A half-open breaker gives out no more trial permits than configured.
    case trials
    /// Every operation ends in time.
    case answers
    /// A free lock is granted to a client that wants it. Waiting clients get it soon, a client that does not wait is not told
    /// "held", and a client that is told "held" does not hold it.
    case freeLocks = "free-locks"
    /// A lease can be renewed while Redis is full.
    case renewals
    /// A limit refuses nobody for more than a second after capacity became free.
    case refusals
    /// A half-open breaker reaches a decision.
    case halfOpen = "half-open"
    /// A forced state stands until its end.
    case forcedStates = "forced-states"
    /// Everything recovers within the stated time after a fault.
    case recovery
    /// A permit that the proxy took for a call is returned when the call is over.
    case permits
    /// The outcome of a proxied call is reported once at most.
    case outcomes
    /// No byte of one answer is in another.
    case bytes
    /// The history makes sense: every end has a beginning, and time does not go back. This is the recorder's promise, not the
    /// product's. Where it is broken, the other promises were not checked.
    case sound = "sound-history"
}

/// One broken promise.
package struct Violation: Hashable, Sendable, Codable, CustomStringConvertible {
    package var promise: Promise
    package var at: Instant
    /// What was seen, with numbers.
    package var finding: String

    package init(_ promise: Promise, at: Instant, _ finding: String) {
        self.promise = promise
        self.at = at
        self.finding = finding
    }

    package var description: String { "\(promise.rawValue) at \(at.nanoseconds / 1_000_000) ms: \(finding)" }
}

/// The result of a check.
package struct CheckReport: Codable, Hashable, Sendable {
    /// Operations that were checked.
    package var operations: Int
    /// Granted leases, and limit decisions (granted or refused).
    package var lockCycles: Int
    package var limitDecisions: Int
    /// Writes that the guarded resource refused because a later lease had written.
    package var staleWritesRefused: Int
    /// Leases that failovers took from their holders; the first of them are told.
    package var leasesLost: Int
    package var lostLeases: [LostLease]
    /// The first ones; `violationCount` counts all.
    package var violations: [Violation]
    package var violationCount: Int

    package init(
        operations: Int = 0, lockCycles: Int = 0, limitDecisions: Int = 0, staleWritesRefused: Int = 0,
        leasesLost: Int = 0, lostLeases: [LostLease] = [],
        violations: [Violation] = [], violationCount: Int = 0
    ) {
        self.operations = operations
        self.lockCycles = lockCycles
        self.limitDecisions = limitDecisions
        self.staleWritesRefused = staleWritesRefused
        self.leasesLost = leasesLost
        self.lostLeases = lostLeases
        self.violations = violations
        self.violationCount = violationCount
    }

    enum CodingKeys: String, CodingKey {
        case operations, violations
        case lockCycles = "lock_cycles"
        case limitDecisions = "limit_decisions"
        case staleWritesRefused = "stale_writes_refused"
        case leasesLost = "leases_lost"
        case lostLeases = "lost_leases"
        case violationCount = "violation_count"
    }
}

/// A lease that a failover took from its holder.
package struct LostLease: Codable, Hashable, Sendable {
    /// When its holder was told.
    package var at: Instant
    package var lock: Int
    package var lease: LeaseID
    package var client: Int
    /// The failover's number in the run.
    package var fault: Int
    /// How many ms after the failover began its holder was told that it has the lease; negative: before.
    package var grantedAfter: Double
    /// How many ms it had left when its holder was told that it is lost.
    package var left: Double

    enum CodingKeys: String, CodingKey {
        case at, lock, lease, client, fault
        case grantedAfter = "granted_after_ms"
        case left = "left_ms"
    }
}

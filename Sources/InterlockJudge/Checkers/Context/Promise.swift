public import InterlockCore

/// What is promised, as reports name it.
public enum Promise: String, Hashable, Sendable, Codable, CaseIterable {
    /// Every grant of a name has a higher fence than all before it.
    case risingFences = "rising-fences"
    /// No two leases of a name are valid at once, unless both are shared or places of a semaphore; readers and writers never
    /// overlap, and a semaphore has no more holders than places.
    case exclusion
    /// A resource that compares fences takes no stale write, and refuses nobody who holds the lock.
    case fencedWrites = "fenced-writes"
    /// No limit is exceeded in any window.
    case limits
    /// A limit that was used up is whole again after its window.
    case limitsRefill = "limits-refill"
    /// No call is permitted after a trip has reached its sidecar.
    case openBreakers = "open-breakers"
    /// A half-open breaker gives no more trial permits than it has.
    case trials
    /// Nobody waits for ever.
    case answers
    /// A lock that nobody holds is somebody's who wants it: those who wait have it soon, and who asks without a wait is not told
    /// that it is held. Who is told so has not got it.
    case freeLocks = "free-locks"
    /// A lease can be renewed while Redis is full.
    case renewals
    /// A limit refuses nobody for longer than a second after it has room.
    case refusals
    /// A half-open breaker comes to a decision.
    case halfOpen = "half-open"
    /// What an operator forces stands until its end.
    case forcedStates = "forced-states"
    /// After a fault everything recovers within the stated time.
    case recovery
    /// The history makes sense: every end belongs to an operation, and time does not go back. The recorder's own promise, not
    /// the sidecars': where it is broken, the others were not checked.
    case sound = "sound-history"
}

/// A promise that was broken, and where.
public struct Violation: Hashable, Sendable, Codable, CustomStringConvertible {
    public var promise: Promise
    public var at: Instant
    /// What was seen, in numbers.
    public var finding: String

    public init(_ promise: Promise, at: Instant, _ finding: String) {
        self.promise = promise
        self.at = at
        self.finding = finding
    }

    public var description: String { "\(promise.rawValue) at \(at.nanoseconds / 1_000_000) ms: \(finding)" }
}

/// What the checkers say.
public struct CheckReport: Codable, Hashable, Sendable {
    /// Operations that were checked.
    public var operations: Int
    /// Lock grants, and limit decisions (granted or refused).
    public var lockCycles: Int
    public var limitDecisions: Int
    /// Writes that the guarded resource refused because a later grant had written.
    public var staleWritesRefused: Int
    /// The first of them; see `violationCount`.
    public var violations: [Violation]
    public var violationCount: Int

    public init(
        operations: Int = 0, lockCycles: Int = 0, limitDecisions: Int = 0, staleWritesRefused: Int = 0,
        violations: [Violation] = [], violationCount: Int = 0
    ) {
        self.operations = operations
        self.lockCycles = lockCycles
        self.limitDecisions = limitDecisions
        self.staleWritesRefused = staleWritesRefused
        self.violations = violations
        self.violationCount = violationCount
    }

    enum CodingKeys: String, CodingKey {
        case operations, violations
        case lockCycles = "lock_cycles"
        case limitDecisions = "limit_decisions"
        case staleWritesRefused = "stale_writes_refused"
        case violationCount = "violation_count"
    }
}

public import InterlockCore

/// Watches a history go by and says where it breaks a promise. Streaming: it keeps what is bounded by clients, names and
/// services, never by operations.
public protocol HistoryChecker: Sendable {
    /// The promise, as reports name it.
    static var promise: Promise { get }

    /// The next event; events come in the order of their times.
    mutating func observe(_ event: HistoryEvent, into violations: inout [Violation])

    /// The history is over at `end`.
    mutating func finish(at end: Instant, into violations: inout [Violation])
}

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
    /// After a fault everything recovers within the stated time.
    case recovery
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

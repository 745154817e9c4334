internal import InterlockCore

/// Watches a history go by and says where it breaks a promise. Streaming: it keeps what is bounded by clients, names and
/// services, never by operations.
///
/// What it is shown was looked up once for all checkers: see `HistoryStep`.
protocol HistoryChecker: Sendable {
    /// The promise, as reports name it.
    static var promise: Promise { get }

    /// The next event; events come in the order of their times.
    /// - Parameter faults: those of the run so far, this event included.
    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation])

    /// The history is over at `end`.
    /// - Parameter calls: those that have not ended.
    mutating func finish(open calls: [Call], at end: Instant, faults: FaultLog, into violations: inout [Violation])
}

extension HistoryChecker {
    // Most promises are broken by what happens.
    mutating func finish(open calls: [Call], at end: Instant, faults: FaultLog, into violations: inout [Violation]) {}
}

/// An event of a history with what it belongs to: every end has its beginning, and every write its lease.
struct HistoryStep: Sendable {
    enum What: Sendable {
        case invoked(Call, LeaseNews?)
        case ended(Call, OperationEnding, LeaseNews?)
        /// `nil`: the lease was granted so long ago that it is forgotten.
        case wrote(RecordedLease?, lock: Int, isAccepted: Bool)
        /// `sidecar`: that granted the lease; `nil`: it is forgotten.
        case linked(lock: Int, lease: LeaseID, ttl: Int64, LinkChange, sidecar: Int?, LeaseNews?)
        case forced(service: Int, state: BreakerSnapshot.Forced?, until: Instant?)
        case breakerSeen(sidecar: Int, service: Int, state: BreakerSnapshot.State, generation: Int64, until: Instant?)
        case faultBegan(fault: Int, FaultKind, sidecar: Int?)
        case faultEnded(fault: Int, FaultKind, sidecar: Int?)
    }

    var at: Instant
    var what: What
}

/// An operation that was invoked.
struct Call: Sendable {
    var client: Int
    var sidecar: Int
    var operation: Operation
    var invoked: Instant
    /// How many leases had been granted by then, of all locks: what this one is granted is certainly later than those.
    var grantsBefore: Int

    /// What it may take of its service's limits.
    var demand: Demand? {
        switch operation {
        case .take(let service, let cost, let subject, _): Demand(service: service, cost: cost, subject: subject)
        case .permit(let service, let subject, _): Demand(service: service, cost: 1, subject: subject)
        case .proxied(let service): Demand(service: service, cost: 1, subject: nil)
        case .acquire, .renew, .release, .report: nil
        }
    }

    /// The lock that it may hold, and for how many ms.
    var lockAndTTL: (lock: Int, ttl: Int64)? {
        switch operation {
        case .acquire(let lock, _, let ttl, _, _), .renew(let lock, _, let ttl): (lock, ttl)
        case .release, .take, .permit, .report, .proxied: nil
        }
    }

    struct Demand: Sendable {
        var service: Int
        var cost: Int64
        var subject: Int?
    }
}

extension Instant {
    /// Earlier than every instant that a clock will ever show.
    static let distantPast = Instant(nanoseconds: .min)

    /// In milliseconds, to the microsecond, as findings tell it.
    var inMilliseconds: String {
        let microseconds = nanoseconds / 1000
        let fraction = String(abs(microseconds % 1000))
        return "\(microseconds / 1000).\(String(repeating: "0", count: 3 - fraction.count))\(fraction)"
    }
}

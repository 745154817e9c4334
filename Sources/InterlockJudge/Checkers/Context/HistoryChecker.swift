internal import InterlockCore

/// Checks one promise of a history as it happens.
///
/// Memory is bounded by clients, names and services, never by operations. `HistoryCheck` prepares each `HistoryStep` once for
/// all checkers.
protocol HistoryChecker: Sendable {
    /// The promise as reports name it.
    static var promise: Promise { get }

    /// Takes the next event, in order of time.
    /// - Parameter faults: the faults so far, including this event.
    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation])
}

extension HistoryChecker {
    /// Reports that the promise is broken.
    func report(at instant: Instant, into violations: inout [Violation], _ finding: String) {
        violations.append(Violation(Self.promise, at: instant, finding))
    }
}

/// An event together with what it belongs to: the call that ended, the lease that wrote.
struct HistoryStep: Sendable {
    enum What: Sendable {
        case invoked(Call, LeaseNews?)
        case ended(Call, OperationEnding, LeaseNews?)
        /// The lease is `nil` if it was granted too long ago to be remembered.
        case wrote(RecordedLease?, lock: Int, isAccepted: Bool)
        /// `sidecar` granted the lease; `nil` if the lease is no longer remembered.
        case linked(lock: Int, lease: LeaseID, ttl: Int64, LinkChange, sidecar: Int?, LeaseNews?)
        case forced(service: Int, state: BreakerSnapshot.Forced?, until: Instant?)
        case breakerSeen(sidecar: Int, service: Int, state: BreakerSnapshot.State, generation: Int64, until: Instant?)
        case faultBegan(fault: Int, FaultKind, sidecar: Int?)
        case faultEnded(fault: Int, FaultKind, sidecar: Int?)
        /// The history ends. These calls have not ended.
        case finished(open: [Call])
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
    /// How many leases of all locks had been granted by then. This call's grant is certainly later than those.
    var grantsBefore: Int

    /// What the call may take from its service's limits.
    var demand: Demand? {
        switch operation {
        case .take(let service, let cost, let subject, _): Demand(service: service, cost: cost, subject: subject)
        case .permit(let service, let subject, _): Demand(service: service, cost: 1, subject: subject)
        case .proxied(let service): Demand(service: service, cost: 1, subject: nil)
        case .acquire, .renew, .release, .report: nil
        }
    }

    /// The lock that the call may hold, and its TTL in ms.
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
    /// Earlier than any instant that a clock shows.
    static let distantPast = Instant(nanoseconds: .min)

    /// Milliseconds with three decimals, for findings.
    var inMilliseconds: String {
        let microseconds = nanoseconds / 1000
        let fraction = String(abs(microseconds % 1000))
        return "\(microseconds / 1000).\(String(repeating: "0", count: 3 - fraction.count))\(fraction)"
    }
}

internal import InterlockCore

/// Checks one invariant of a history as it happens.
///
/// Memory grows with clients, names and services, never with operations. `HistoryCheck` prepares each `HistoryStep`
/// once for all checkers.
protocol HistoryChecker: Sendable {
    /// The invariant that the checker verifies.
    static var invariant: Invariant { get }

    /// Checks the next event, in order of time.
    /// - Parameter faults: the faults so far, including this event.
    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation])
}

extension HistoryChecker {
    /// Reports a violation of the invariant.
    func report(at instant: Instant, into violations: inout [Violation], _ finding: String) {
        violations.append(Violation(Self.invariant, at: instant, finding))
    }
}

extension Instant {
    /// An instant before all others.
    static let distantPast = Instant(nanoseconds: .min)

    /// The time in milliseconds with three decimals, for findings.
    var inMilliseconds: String {
        let microseconds = nanoseconds / 1000
        let fraction = String(abs(microseconds % 1000))
        return "\(microseconds / 1000).\(String(repeating: "0", count: 3 - fraction.count))\(fraction)"
    }
}

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

package import InterlockJudge

/// The state of a run, reported once a second.
package struct LoadProgress: Sendable {
    /// The seconds since the start of the run.
    package var seconds: Double
    /// The number of operations that have been due so far.
    package var offered: Int
    package var done: Int
    package var refused: Int
    package var failed: Int
    package var unknown: Int
    /// The number of operations that are due but have not begun.
    package var waiting: Int
    /// The 99th percentile of the latency of all operations answered so far, in microseconds; `nil` before the first.
    package var p99: Double?
    /// The results of the last complete second; `nil` during the first.
    package var last: TimelinePoint?
    package var violations: Int
    /// The active faults.
    package var faults: [FaultKind]
}

package import InterlockJudge

/// The state of a run, reported once a second.
package struct LoadProgress: Sendable {
    /// The seconds since the start of the run.
    package var seconds: Double
    /// The number of due operations so far.
    package var offered: Int
    package var done: Int
    package var refused: Int
    package var failed: Int
    package var unknown: Int
    /// The number of operations that are due but have not begun.
    package var waiting: Int
    /// The 99th percentile of the latency of all operations answered so far, in microseconds; `nil` if there are none.
    package var p99: Double?
    /// The last complete second.
    package var last: TimelinePoint?
    package var violations: Int
    /// The active faults.
    package var faults: [FaultKind]
}

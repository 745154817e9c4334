package import InterlockJudge

/// How a run stands, once a second.
package struct LoadProgress: Sendable {
    /// Since it began.
    package var seconds: Double
    /// All operations so far.
    package var offered: Int
    package var done: Int
    package var refused: Int
    package var failed: Int
    package var unknown: Int
    /// Due, and not begun yet.
    package var waiting: Int
    /// Of all that were answered so far, in microseconds.
    package var p99: Double?
    /// The last whole second.
    package var last: TimelinePoint?
    package var violations: Int
    /// What is broken just now.
    package var faults: [FaultKind]
}

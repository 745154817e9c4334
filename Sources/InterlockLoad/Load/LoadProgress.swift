public import InterlockJudge

/// How a run stands, once a second.
public struct LoadProgress: Sendable {
    /// Since it began.
    public var seconds: Double
    /// All operations so far.
    public var offered: Int
    public var done: Int
    public var refused: Int
    public var failed: Int
    public var unknown: Int
    /// Due, and not begun yet.
    public var waiting: Int
    /// Of all that were answered so far, in microseconds.
    public var p99: Double?
    /// The last whole second.
    public var last: TimelinePoint?
    public var violations: Int
    /// What is broken just now.
    public var faults: [FaultKind]
}

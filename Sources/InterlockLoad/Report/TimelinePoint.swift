/// The results of one second of a run, over all operations.
package struct TimelinePoint: Codable, Hashable, Sendable {
    /// The start of the second, in seconds since the start of the run.
    package var second: Int
    package var offered: Int
    package var done: Int
    package var refused: Int
    /// The number of operations that failed or have an unknown outcome.
    package var failed: Int
    /// The median latency in microseconds; `nil` if no operation was answered.
    package var p50: Double?
    /// The 99th percentile of the latency in microseconds.
    package var p99: Double?
    /// The maximum latency in microseconds.
    package var max: Double?

    package init(
        second: Int, offered: Int = 0, done: Int = 0, refused: Int = 0, failed: Int = 0, p50: Double? = nil, p99: Double? = nil,
        max: Double? = nil
    ) {
        self.second = second
        self.offered = offered
        self.done = done
        self.refused = refused
        self.failed = failed
        self.p50 = p50
        self.p99 = p99
        self.max = max
    }
}

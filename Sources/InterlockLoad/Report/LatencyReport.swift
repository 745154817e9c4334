/// A distribution of latencies in microseconds.
package struct LatencyReport: Codable, Hashable, Sendable {
    package var count: Int
    package var mean: Double
    package var p50: Double
    package var p90: Double
    package var p99: Double
    package var p999: Double
    package var max: Double
    /// The points of the percentile curve: ascending fractions (0 ..< 1), each with the latency that this fraction of
    /// operations did not exceed.
    package var percentiles: [Percentile]

    package init(
        count: Int, mean: Double, p50: Double, p90: Double, p99: Double, p999: Double, max: Double, percentiles: [Percentile]
    ) {
        self.count = count
        self.mean = mean
        self.p50 = p50
        self.p90 = p90
        self.p99 = p99
        self.p999 = p999
        self.max = max
        self.percentiles = percentiles
    }

    package struct Percentile: Codable, Hashable, Sendable {
        package var fraction: Double
        package var microseconds: Double

        package init(fraction: Double, microseconds: Double) {
            self.fraction = fraction
            self.microseconds = microseconds
        }
    }
}

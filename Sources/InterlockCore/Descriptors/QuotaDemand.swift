/// The amount of a limit that a data plane needs, estimated from its reports.
package struct QuotaDemand: Hashable, Sendable {
    /// The ratio of the expected need to the recent one, because the load may double.
    private static let headroomFactor: Int64 = 2
    /// The estimated number of requests per fill; `nil` before a report gives a rate.
    private var requestsPerFill: Int64?

    package init() {}

    /// Whether the last report counted no requests.
    package private(set) var isIdle = false

    /// Updates the estimate.
    /// - Parameters:
    ///   - requests: the requests allowed and denied since the previous report.
    ///   - milliseconds: the time since the previous report; 0 for the first one.
    package mutating func report(requests: Int64, overMilliseconds milliseconds: Int64, of rate: QuotaRate) {
        isIdle = requests == 0
        guard milliseconds > 0 else { return }
        let fillMilliseconds = rate.seconds * 1000
        let (product, overflow) = requests.multipliedReportingOverflow(by: fillMilliseconds)
        let reportedPerFill = overflow ? rate.tokens : product / milliseconds + (product % milliseconds > 0 ? 1 : 0)
        // A report at most halves the estimate, so that a short pause costs little.
        requestsPerFill = max(reportedPerFill, (requestsPerFill ?? 0) / 2)
    }

    /// Returns the number of tokens needed per fill. Before a report gives a rate, these are all tokens of the limit.
    package func tokens(of rate: QuotaRate) -> Int64 {
        guard let requestsPerFill else { return rate.tokens }
        let needsAll = requestsPerFill > rate.tokens / Self.headroomFactor
        return min(rate.tokens, needsAll ? rate.tokens : requestsPerFill * Self.headroomFactor)
    }
}

/// The amount of a limit that a data plane needs, estimated from its reports.
package struct QuotaDemand: Hashable, Sendable {
    /// The ratio of the expected need to the recent one, because the load may double.
    private static let headroom: Int64 = 2
    private var requests: Int64?

    package init() {}

    /// Whether the last report counted no requests.
    package private(set) var isIdle = false

    /// Updates the estimate.
    /// - Parameters:
    ///   - requests: the requests allowed and denied since the previous report.
    ///   - milliseconds: the time since the previous report; 0 for the first one.
    package mutating func report(requests: Int64, over milliseconds: Int64, of rate: QuotaRate) {
        isIdle = requests == 0
        guard milliseconds > 0 else { return }
        let window = rate.seconds * 1000
        let (product, overflow) = requests.multipliedReportingOverflow(by: window)
        let now = overflow ? rate.tokens : product / milliseconds + (product % milliseconds > 0 ? 1 : 0)
        // The estimate at most halves with each report, so that a short pause costs little.
        self.requests = max(now, (self.requests ?? 0) / 2)
    }

    /// Returns the tokens needed per fill; all tokens of the limit before a report gives a rate.
    package func tokens(of rate: QuotaRate) -> Int64 {
        guard let requests else { return rate.tokens }
        return min(rate.tokens, requests > rate.tokens / Self.headroom ? rate.tokens : requests * Self.headroom)
    }
}

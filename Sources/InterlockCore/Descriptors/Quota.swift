/// How much of a limit a data plane needs, by what it reports.
package struct QuotaNeeds: Hashable, Sendable {
    /// Of what was needed a moment ago, what will be needed next: it may be as much again.
    private static let headroom: Int64 = 2
    private var requests: Int64?

    package init() {}

    /// Whether it has been asked for nothing.
    package private(set) var isIdle = false

    /// - Parameters:
    ///   - requests: allowed and denied ones since the report before.
    ///   - milliseconds: since then; 0: it is the first.
    package mutating func report(requests: Int64, over milliseconds: Int64, of rate: QuotaRate) {
        isIdle = requests == 0
        guard milliseconds > 0 else { return }
        let window = rate.seconds * 1000
        let (product, overflow) = requests.multipliedReportingOverflow(by: window)
        let now = overflow ? rate.tokens : product / milliseconds + (product % milliseconds > 0 ? 1 : 0)
        // A pause of one report is none.
        self.requests = max(now, (self.requests ?? 0) / 2)
    }

    /// In tokens for each fill; before the first report that tells a rate, all of them.
    package func tokens(of rate: QuotaRate) -> Int64 {
        guard let requests else { return rate.tokens }
        return min(rate.tokens, requests > rate.tokens / Self.headroom ? rate.tokens : requests * Self.headroom)
    }
}

/// A limit as a token bucket is filled by it: whole tokens, in whole seconds.
package struct QuotaRate: Hashable, Sendable {
    /// For each fill, of all data planes together.
    package let tokens: Int64
    package let seconds: Int64
    /// What a full bucket holds, of all together.
    package let capacity: Int64

    /// Of a window that is no whole number of seconds, as much as it allows in the next longer one.
    package init(_ limit: LimitDefinition) {
        let window = limit.windowMilliseconds
        seconds = max(1, (window - 1) / 1000 + 1)
        tokens = limit.limit * seconds * 1000 / max(1, window)
        capacity = if case .gcra = limit.algorithm { limit.capacity } else { tokens }
    }

    /// What the bucket of one that has this share holds when it is full: of a share, one token at least.
    package func capacity(ofShare share: Int64) -> Int64 {
        guard tokens > 0 else { return 0 }
        let (product, overflow) = share.multipliedReportingOverflow(by: capacity)
        return max(1, overflow ? share : product / tokens)
    }
}

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
        let now = overflow ? rate.tokens : (product + milliseconds - 1) / milliseconds
        // A pause of one report is none.
        self.requests = max(now, (self.requests ?? 0) / 2)
    }

    /// In tokens for each fill; before the first report that tells a rate, all of them.
    package func tokens(of rate: QuotaRate) -> Int64 {
        guard let requests else { return rate.tokens }
        return min(rate.tokens, requests > rate.tokens / Self.headroom ? rate.tokens : requests * Self.headroom)
    }
}

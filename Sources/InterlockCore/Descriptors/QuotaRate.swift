/// A limit as a token bucket is filled by it: whole tokens, in whole seconds.
package struct QuotaRate: Hashable, Sendable {
    /// For each fill, of all data planes together.
    package let tokens: Int64
    package let seconds: Int64
    /// What a full bucket holds, of all together: no more than comes in the time that an assignment lasts, for each new one begins full.
    package let capacity: Int64

    /// For so long a data plane goes by what it was told, in whole seconds, as Envoy counts. Envoy reports every five.
    package static let lifetimeSeconds: Int64 = 15

    /// Of a window that is no whole number of seconds, as much as it allows in the next longer one.
    package init(_ limit: LimitDefinition) {
        let window = limit.windowMilliseconds
        seconds = max(1, (window - 1) / 1000 + 1)
        let (product, overflow) = limit.limit.multipliedReportingOverflow(by: seconds * 1000)
        // Of so many a part of a second makes no difference.
        let tokens = overflow || window % 1000 == 0 ? limit.limit : product / max(1, window)
        // Envoy counts in 32 bits.
        self.tokens = min(tokens, Int64(UInt32.max))
        let most = if case .gcra = limit.algorithm { min(limit.capacity, self.tokens) } else { self.tokens }
        let (lasting, isLarge) = most.multipliedReportingOverflow(by: Self.lifetimeSeconds)
        capacity = seconds <= Self.lifetimeSeconds || isLarge ? most : max(1, lasting / seconds)
    }

    /// What the bucket of one that has this share holds when it is full: of a share, one token at least.
    package func capacity(ofShare share: Int64) -> Int64 {
        guard tokens > 0 else { return 0 }
        let (product, overflow) = share.multipliedReportingOverflow(by: capacity)
        return max(1, overflow ? share : product / tokens)
    }
}

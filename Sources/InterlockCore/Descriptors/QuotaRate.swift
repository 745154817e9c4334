/// A limit as the fill rate of a token bucket: whole tokens per whole seconds.
package struct QuotaRate: Hashable, Sendable {
    /// The tokens per fill, for all data planes together.
    package let tokens: Int64
    package let seconds: Int64
    /// The tokens in a full bucket, for all data planes together. It is at most the inflow during the lifetime of an
    /// assignment, because every new bucket starts full.
    package let capacity: Int64

    /// How long a data plane follows an assignment, in whole seconds, as Envoy counts. Envoy reports every
    /// five seconds.
    package static let lifetimeSeconds: Int64 = 15

    /// Rounds a window up to whole seconds, with the tokens that the limit allows in that time.
    package init(_ limit: LimitDefinition) {
        let window = limit.windowMilliseconds
        seconds = max(1, (window - 1) / 1000 + 1)
        let (product, overflow) = limit.limit.multipliedReportingOverflow(by: seconds * 1000)
        // If the product overflows, the fraction of a second makes no difference.
        let tokens = overflow || window % 1000 == 0 ? limit.limit : product / max(1, window)
        // Envoy counts in 32 bits.
        self.tokens = min(tokens, Int64(UInt32.max))
        let full = if case .gcra = limit.algorithm { min(limit.capacity, self.tokens) } else { self.tokens }
        let (inflow, isLarge) = full.multipliedReportingOverflow(by: Self.lifetimeSeconds)
        capacity = seconds <= Self.lifetimeSeconds || isLarge ? full : max(1, inflow / seconds)
    }

    /// Returns the capacity of the bucket of a data plane with this portion of the tokens: proportional, and at least
    /// one token.
    package func capacity(ofPortion portion: Int64) -> Int64 {
        guard tokens > 0 else { return 0 }
        let (product, overflow) = portion.multipliedReportingOverflow(by: capacity)
        return max(1, overflow ? portion : product / tokens)
    }
}

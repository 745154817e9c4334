/// A limit as the fill rate of a token bucket: a number of tokens in a number of seconds, both whole.
package struct QuotaRate: Hashable, Sendable {
    /// The tokens per fill, for all data planes together.
    package let tokens: Int64
    /// The interval of a fill.
    package let seconds: Int64
    /// The tokens in a full bucket, for all data planes together. The capacity is at most the inflow during the
    /// lifetime of an assignment, because every new bucket starts full.
    package let capacity: Int64

    /// How long a data plane follows an assignment. Envoy counts in whole seconds, and reports every five seconds.
    package static let lifetimeSeconds: Int64 = 15

    /// Creates the rate of a limit. Rounds the window up to whole seconds, with the tokens that the limit allows in
    /// that time.
    package init(_ limit: LimitDefinition) {
        let windowMilliseconds = limit.windowMilliseconds
        seconds = max(1, (windowMilliseconds - 1) / 1000 + 1)
        let (product, overflow) = limit.limit.multipliedReportingOverflow(by: seconds * 1000)
        // If the product overflows, the fraction of a second makes no difference.
        let tokens =
            overflow || windowMilliseconds % 1000 == 0 ? limit.limit : product / max(1, windowMilliseconds)
        // Envoy counts in 32 bits.
        self.tokens = min(tokens, Int64(UInt32.max))
        let burst = if case .gcra = limit.algorithm { min(limit.capacity, self.tokens) } else { self.tokens }
        let (inflow, inflowOverflow) = burst.multipliedReportingOverflow(by: Self.lifetimeSeconds)
        capacity = seconds <= Self.lifetimeSeconds || inflowOverflow ? burst : max(1, inflow / seconds)
    }

    /// Returns the capacity of the bucket of a data plane that gets `portion` of the tokens: proportional, and at least
    /// one token.
    package func capacity(ofPortion portion: Int64) -> Int64 {
        guard tokens > 0 else { return 0 }
        let (product, overflow) = portion.multipliedReportingOverflow(by: capacity)
        return max(1, overflow ? portion : product / tokens)
    }
}

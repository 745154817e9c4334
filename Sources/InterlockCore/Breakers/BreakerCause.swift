/// Why a breaker is in its state. In Redis and in events a cause is text, because another version may know more of them.
package enum BreakerCause: String, CaseIterable, Hashable, Sendable {
    /// Too large a share of failed calls.
    case failures
    /// Too large a share of slow calls.
    case slow
    /// Too many failures in a row.
    case consecutive
    /// The upstream said for how long it wants to be left alone.
    case retryAfter = "retry_after"
    /// A rate limit was reached, and there is room again.
    case limit
    /// The outage monitor's probes failed.
    case outage
    /// The outage monitor's probes are good again.
    case probe
    /// The calls of half-open succeeded.
    case trials
    /// An operator's word.
    case forced
    /// An operator's word has ended, or outcomes are only counted from now on.
    case auto
}

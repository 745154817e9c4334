/// The cause of a breaker's state. In Redis and in events, a cause is text, because other versions may have more
/// causes.
package enum BreakerCause: String, CaseIterable, Hashable, Sendable {
    /// The rate of failed calls was too high.
    case failures
    /// The rate of slow calls was too high.
    case slow
    /// Too many calls failed in a row.
    case consecutive
    /// The upstream asked callers to wait.
    case retryAfter = "retry_after"
    /// A rate limit was reached, or has capacity again.
    case limit
    /// The outage monitor's probes failed.
    case outage
    /// The outage monitor's probes succeeded again.
    case probe
    /// The trial calls in the half-open state succeeded.
    case trials
    /// An operator forced the state.
    case forced
    /// A forced state ended, or a reload of the configuration ended the state.
    case auto
}

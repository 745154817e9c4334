internal import InterlockCore

/// The bounds of the amount that a limit may grant within a period, counting calls that are known to be granted in it:
/// invoked after its start and answered before its end.
///
/// - `sliding`: the limit in any window.
/// - `gcra`: burst + 1 + S · limit ÷ window in a period S.
/// - `fixed`: a window begins with its first call, so a shorter period overlaps at most two windows: twice the limit. A
///   longer period S overlaps at most S ÷ window + 2: twice the limit + S · limit ÷ window. Counting whole windows
///   would be stricter by up to one limit, but this bound holds for every length.
///
/// Each fault that may lose counts allows the limit once more (`gcra`: its burst + 1), because Redis starts from zero.
struct LimitBounds: Sendable {
    /// The maximum amount in a period shorter than a window; `nil` if the other two bounds suffice.
    var inWindow: Int64?
    /// The constant part of the bound `burst + S · perNanosecond` for a period S; `nil` if `inWindow` suffices.
    var burst: Int64?
    /// The rate part of that bound.
    var perNanosecond: Double
    /// The amount that may be granted again when Redis loses its counts.
    var regrantable: Int64
    /// The minimum length of a window, in nanoseconds of the history's clock.
    var windowNanoseconds: Int64

    /// Creates the bounds of a limit whose grants come from Redis.
    /// - Parameter clockDrift: see `HistoryRules.clockDrift`.
    init(of rule: LimitRule, clockDrift: Double) {
        let nominalNanoseconds = Double(rule.windowMilliseconds) * 1e6
        // The length is capped at about 73 years. A fixed window begins with a whole millisecond of the Redis clock.
        let minimumNanoseconds = rule.algorithm == .fixed ? max(nominalNanoseconds - 1e6, 1e6) : nominalNanoseconds
        windowNanoseconds = Int64(min(minimumNanoseconds * (1 - clockDrift), 0x1p61))
        perNanosecond = Double(rule.limit) / nominalNanoseconds * (1 + clockDrift)
        switch rule.algorithm {
        case .sliding:
            inWindow = rule.limit
            regrantable = rule.limit
        case .fixed:
            inWindow = 2 * rule.limit
            burst = 2 * rule.limit
            regrantable = rule.limit
        case .gcra:
            burst = rule.burst + 1
            regrantable = rule.burst + 1
        }
    }
}

extension LimitRule {
    /// Returns the bounds that also allow the grants that a fleet of this size makes without Redis. Each sidecar
    /// applies the limit's algorithm to its local quota; see `LocalQuota`. Together, the quotas amount to one more
    /// limit. A quota below one call is rounded up to one call over several windows.
    func boundsWithoutRedis(sidecars: Int, clockDrift: Double) -> LimitBounds {
        let sidecars = Int64(max(1, sidecars))
        var bounds = LimitBounds(of: self, clockDrift: clockDrift)
        switch algorithm {
        case .sliding:
            let quota = sidecars * max(1, limit / sidecars)
            bounds.inWindow = limit + quota
        case .fixed:
            let quota = sidecars * max(1, limit / sidecars)
            bounds.inWindow = 2 * (limit + quota)
            bounds.burst = 2 * (limit + quota)
        case .gcra:
            bounds.burst = burst + 1 + sidecars * max(1, (burst + 1) / sidecars)
        }
        bounds.perNanosecond *= 2
        return bounds
    }
}

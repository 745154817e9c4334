internal import InterlockCore

/// What a limit promises about calls that were certainly granted within a time: those that were asked for after its beginning
/// and answered before its end.
///
/// - `sliding`: in a window, wherever it begins, the limit.
/// - `gcra`: in a time S burst + 1 and S · limit ÷ window.
/// - `fixed`: a window begins with its first call, so a time shorter than one meets two of them: twice the limit. Longer ones
///   meet S ÷ window + 2 at most: twice the limit and S · limit ÷ window. That is up to one limit less strict than whole
///   windows would be, but it holds for times of any length.
///
/// Each fault that may forget counts allows one limit more (of `gcra` what it grants at once): Redis begins anew once.
struct LimitBounds: Sendable {
    /// Granted in a time shorter than a window; `nil`: `atOnce` and `perNanosecond` say it all.
    var inWindow: Int64?
    /// Granted in a time S are at most `atOnce + S · perNanosecond`; `nil`: `inWindow` says it all.
    var atOnce: Int64?
    var perNanosecond: Double
    /// What is granted once more when Redis forgets.
    var whenForgotten: Int64
    /// A window in nanoseconds of the history's clock, at least.
    var window: Int64

    /// - Parameter clockDrift: see `HistoryRules.clockDrift`.
    init(of rule: LimitRule, clockDrift: Double) {
        let nanoseconds = Double(rule.window) * 1e6
        // Windows beyond a century are as good as that.
        window = Int64(min(nanoseconds * (1 - clockDrift), 0x1p61))
        perNanosecond = Double(rule.limit) / nanoseconds * (1 + clockDrift)
        switch rule.algorithm {
        case .sliding:
            inWindow = rule.limit
            whenForgotten = rule.limit
        case .fixed:
            inWindow = 2 * rule.limit
            atOnce = 2 * rule.limit
            whenForgotten = rule.limit
        case .gcra:
            atOnce = rule.burst + 1
            whenForgotten = rule.burst + 1
        }
    }
}

extension LimitRule {
    /// What a fleet of so many grants of this limit without Redis, beyond what Redis had granted: each sidecar its share by the
    /// limit's own algorithm, as `LocalShare` divides it. For the whole fleet that is a limit for each limit that Redis may
    /// grant; a share of less than one call is rounded up to one, over several windows.
    func boundsWithoutRedis(sidecars: Int, clockDrift: Double) -> LimitBounds {
        let sidecars = Int64(max(1, sidecars))
        var bounds = LimitBounds(of: self, clockDrift: clockDrift)
        switch algorithm {
        case .sliding:
            let shares = sidecars * max(1, limit / sidecars)
            bounds.inWindow = limit + shares
        case .fixed:
            let shares = sidecars * max(1, limit / sidecars)
            bounds.inWindow = 2 * (limit + shares)
            bounds.atOnce = 2 * (limit + shares)
        case .gcra:
            bounds.atOnce = burst + 1 + sidecars * max(1, (burst + 1) / sidecars)
        }
        bounds.perNanosecond *= 2
        return bounds
    }
}

internal import InterlockCore

/// One counter of a limit, shared by all calls or kept for one subject. Checks that the grants stay within the bounds.
struct LimitCounter: Sendable {
    /// A granted call.
    struct Grant: Sendable {
        var cost: Int64
        var invoked: Instant
        var ended: Instant
        /// Whether Redis may have been down, so that the sidecar may have granted the call on its own.
        var isDoubtful: Bool
        /// The remaining time of the window according to the answer, in milliseconds; `nil` if the answer was about
        /// another limit.
        var resetAfterMilliseconds: Int64?
    }

    private let rule: LimitRule
    private let bounds: LimitBounds
    private let boundsWithoutRedis: LimitBounds
    /// The grants of Redis.
    private var log: GrantLog
    /// The grants of Redis and those that sidecars may have made on their own; `nil` if the policy allows none or all
    /// of them.
    private var logWithQuotas: GrantLog?
    private var windows: FixedWindows
    private(set) var lastGrant = Instant.distantPast

    init(_ rule: LimitRule, whenRedisIsDown: OutagePolicyName, sidecars: Int, clockDrift: Double) {
        self.rule = rule
        bounds = LimitBounds(of: rule, clockDrift: clockDrift)
        boundsWithoutRedis = rule.boundsWithoutRedis(sidecars: sidecars, clockDrift: clockDrift)
        log = GrantLog(windowNanoseconds: bounds.windowNanoseconds, ratePerNanosecond: bounds.perNanosecond)
        if whenRedisIsDown == .local {
            logWithQuotas = GrantLog(
                windowNanoseconds: bounds.windowNanoseconds, ratePerNanosecond: boundsWithoutRedis.perNanosecond)
        }
        windows = FixedWindows(windowNanoseconds: bounds.windowNanoseconds, clockDrift: clockDrift)
    }

    var undecidedGrantCount: Int { windows.undecidedGrantCount }

    /// Counts a grant. Returns a description of the bound that it exceeds; `nil` if it exceeds none.
    mutating func add(_ grant: Grant, faults: FaultLog) -> String? {
        lastGrant = grant.ended
        if !grant.isDoubtful {
            if rule.hasFixedWindows, let finding = addToWindow(grant, faults: faults) { return finding }
            if let finding = Self.add(grant, to: &log, rule, bounds, faults: faults) { return finding }
        }
        if var quotaLog = logWithQuotas {
            logWithQuotas = nil
            defer { logWithQuotas = quotaLog }
            if let finding = Self.add(grant, to: &quotaLog, rule, boundsWithoutRedis, faults: faults) {
                return finding + ", including the local quotas of sidecars without Redis"
            }
        }
        return nil
    }

    /// Allows the limit once more after a fault that may have lost counts.
    mutating func countsMayBeLost(at instant: Instant) {
        log.forgive(bounds.regrantable, at: instant)
        logWithQuotas?.forgive(bounds.regrantable, at: instant)
        windows.removeAll()
    }

    /// Forgets the grants that sidecars may have made on their own, because a restarted sidecar has forgotten its own.
    mutating func sidecarRestarted() {
        logWithQuotas?.removeAll()
    }

    private mutating func addToWindow(_ grant: Grant, faults: FaultLog) -> String? {
        guard let resetAfterMilliseconds = grant.resetAfterMilliseconds,
            !faults.wasActive(.lostCounts, since: grant.invoked)
        else { return nil }
        let granted = windows.add(
            grant.cost, invoked: grant.invoked, ended: grant.ended,
            resetAfterMilliseconds: resetAfterMilliseconds, limit: rule.limit)
        return granted.map {
            "\($0) were granted in one fixed window of \(rule.windowMilliseconds) ms, according to the answers"
        }
    }

    private static func add(
        _ grant: Grant, to log: inout GrantLog, _ rule: LimitRule, _ bounds: LimitBounds, faults: FaultLog
    ) -> String? {
        let (inWindow, excess) = log.add(grant.cost, invoked: grant.invoked, ended: grant.ended)
        if let bound = bounds.inWindow, inWindow > bound {
            let windowStart = grant.ended.advanced(byMilliseconds: -rule.windowMilliseconds)
            let allowed = bound + Int64(faults.numberOfCountLosingFaults(since: windowStart)) * bounds.regrantable
            if inWindow > allowed {
                log.removeAll()
                return """
                    \(inWindow) were granted in less than \(rule.windowMilliseconds) ms; at most \(allowed) are allowed
                    """
            }
        }
        if let burst = bounds.burst {
            // `countsMayBeLost` covers the faults that have ended. The tolerance covers Redis's times, which are whole
            // microseconds.
            let losses = faults.isLosingCounts ? Int64(faults.numberOfCountLosingFaults(since: grant.ended)) : 0
            let allowed = Double(burst + losses * bounds.regrantable) + 2000 * bounds.perNanosecond + 1e-6
            if excess > allowed {
                log.removeAll()
                return "calls exceed the rate by \(excess); at most \(burst + losses * bounds.regrantable) are allowed"
            }
        }
        return nil
    }
}

internal import InterlockCore

/// One counter of a limit, common or for one subject. Compares the grants with the bounds.
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
        var resetAfter: Int64?
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
        log = GrantLog(window: bounds.window, rate: bounds.perNanosecond)
        if whenRedisIsDown == .local {
            logWithQuotas = GrantLog(window: bounds.window, rate: boundsWithoutRedis.perNanosecond)
        }
        windows = FixedWindows(window: bounds.window, clockDrift: clockDrift)
    }

    var undecided: Int { windows.undecided }

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

    /// Call when a fault that may have lost counts has ended.
    mutating func countsMayBeLost(at instant: Instant) {
        log.forgive(bounds.regrantable, at: instant)
        logWithQuotas?.forgive(bounds.regrantable, at: instant)
        windows.removeAll()
    }

    /// Call when a sidecar restarted, because it has forgotten the grants that it made without Redis.
    mutating func sidecarRestarted() {
        logWithQuotas?.removeAll()
    }

    private mutating func addToWindow(_ grant: Grant, faults: FaultLog) -> String? {
        guard let resetAfter = grant.resetAfter, !faults.wasActive(.lostCounts, since: grant.invoked) else { return nil }
        let granted = windows.add(
            grant.cost, invoked: grant.invoked, ended: grant.ended, resetAfter: resetAfter, limit: rule.limit)
        return granted.map { "\($0) were granted in one fixed window of \(rule.window) ms, according to the answers" }
    }

    private static func add(
        _ grant: Grant, to log: inout GrantLog, _ rule: LimitRule, _ bounds: LimitBounds, faults: FaultLog
    ) -> String? {
        let (inWindow, excess) = log.add(grant.cost, invoked: grant.invoked, ended: grant.ended)
        if let bound = bounds.inWindow, inWindow > bound {
            let began = grant.ended.advanced(byMilliseconds: -rule.window)
            let allowed = bound + Int64(faults.lostCounts(since: began)) * bounds.regrantable
            if inWindow > allowed {
                log.removeAll()
                return "\(inWindow) were granted in less than \(rule.window) ms; at most \(allowed) are allowed"
            }
        }
        if let burst = bounds.burst {
            // Faults that have ended were forgiven when they ended. The tolerance is for Redis's times, which are whole
            // microseconds.
            let lost = faults.isLosingCounts ? Int64(faults.lostCounts(since: grant.ended)) : 0
            let allowed = Double(burst + lost * bounds.regrantable) + 2000 * bounds.perNanosecond + 1e-6
            if excess > allowed {
                log.removeAll()
                return "calls exceed the rate by \(excess); at most \(burst + lost * bounds.regrantable) are allowed"
            }
        }
        return nil
    }
}

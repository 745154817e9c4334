internal import InterlockCore

/// One counter of a limit, for everybody or for one subject: compares what was granted with the bounds.
struct LimitCounter: Sendable {
    /// A granted call.
    struct Grant: Sendable {
        var cost: Int64
        var invoked: Instant
        var ended: Instant
        /// Redis may have been away, so the sidecar may have granted it by itself.
        var isDoubtful: Bool
        /// When the window ends according to the answer, in ms; `nil` if the answer was about another limit.
        var resetAfter: Int64?
    }

    private let rule: LimitRule
    private let bounds: LimitBounds
    private let boundsWithoutRedis: LimitBounds
    /// What Redis granted.
    private var log: GrantLog
    /// The same plus what sidecars may have granted by themselves; `nil` if they grant nothing or everything.
    private var logWithShares: GrantLog?
    private var windows: FixedWindows
    private(set) var lastGrant = Instant.distantPast

    init(_ rule: LimitRule, whenRedisIsDown: OutagePolicyName, sidecars: Int, clockDrift: Double) {
        self.rule = rule
        bounds = LimitBounds(of: rule, clockDrift: clockDrift)
        boundsWithoutRedis = rule.boundsWithoutRedis(sidecars: sidecars, clockDrift: clockDrift)
        log = GrantLog(window: bounds.window, rate: bounds.perNanosecond)
        if whenRedisIsDown == .local {
            logWithShares = GrantLog(window: bounds.window, rate: boundsWithoutRedis.perNanosecond)
        }
        windows = FixedWindows(window: bounds.window, clockDrift: clockDrift)
    }

    var undecided: Int { windows.undecided }

    /// Counts a grant. Returns the bound that it exceeds, in words.
    mutating func add(_ grant: Grant, faults: FaultLog) -> String? {
        lastGrant = grant.ended
        if !grant.isDoubtful {
            if rule.hasOwnWindows, let finding = addToWindow(grant, faults: faults) { return finding }
            if let finding = Self.add(grant, to: &log, rule, bounds, faults: faults) { return finding }
        }
        if var shares = logWithShares {
            logWithShares = nil
            defer { logWithShares = shares }
            if let finding = Self.add(grant, to: &shares, rule, boundsWithoutRedis, faults: faults) {
                return finding + ", the shares of sidecars without Redis included"
            }
        }
        return nil
    }

    /// A fault that may have lost counts has ended.
    mutating func mayHaveBeenForgotten(at instant: Instant) {
        log.forgive(bounds.whenForgotten, at: instant)
        logWithShares?.forgive(bounds.whenForgotten, at: instant)
        windows.removeAll()
    }

    /// A sidecar restarted and has forgotten what it granted without Redis.
    mutating func sharesBeginAnew() {
        logWithShares?.removeAll()
    }

    private mutating func addToWindow(_ grant: Grant, faults: FaultLog) -> String? {
        guard let resetAfter = grant.resetAfter, !faults.touches(.lostCounts, since: grant.invoked) else { return nil }
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
            let allowed = bound + Int64(faults.lostCounts(since: began)) * bounds.whenForgotten
            if inWindow > allowed {
                log.removeAll()
                return "\(inWindow) were granted in less than \(rule.window) ms; at most \(allowed) are allowed"
            }
        }
        if let atOnce = bounds.atOnce {
            // Faults that are over were forgiven at their end. Redis' times are whole microseconds.
            let lost = faults.isLosingCounts ? Int64(faults.lostCounts(since: grant.ended)) : 0
            let allowed = Double(atOnce + lost * bounds.whenForgotten) + 2000 * bounds.perNanosecond + 1e-6
            if excess > allowed {
                log.removeAll()
                return "calls exceed the rate by \(excess); at most \(atOnce + lost * bounds.whenForgotten) are allowed"
            }
        }
        return nil
    }
}

/// One service's breaker as this sidecar acts on it: a copy of the fleet's state, and the outcomes it has yet to report.
///
/// The state machine is that of Nygard's "Release It!" (closed, open, half-open). The decision to change state is taken
/// in Redis, under the generation number; the copy only ever moves to a higher generation.
public struct Breaker: Sendable {
    /// Whether a call may be made now.
    public enum Admission: Equatable, Sendable {
        case allow
        /// Not now; `retryAfter` is in milliseconds.
        case refuse(retryAfter: Int64)
        /// Only with one of the fleet's trial permits.
        case askForTrial
    }

    /// What is to be done with the sums after an outcome was recorded.
    public enum ReportAction: Equatable, Sendable {
        case none
        /// Send them then.
        case sendAt(Instant)
        /// They would trip the breaker: send them at once.
        case sendNow
    }

    /// How long a refusal by a forced state is said to last: it has no end of its own.
    public static let forcedRetryMilliseconds: Int64 = 1000
    /// How often sums are sent at most.
    public static let reportIntervalMilliseconds: Int64 = 100

    public private(set) var snapshot: BreakerSnapshot
    public var settings: BreakerSettings
    /// When the open time is over on this sidecar's clock.
    public private(set) var openUntil: Instant?
    /// Outcomes not yet sent.
    public private(set) var unsent = OutcomeSums()
    private var isSendPlanned = false
    private var mayReportFrom = Instant(nanoseconds: .min)
    /// Half-open, and all trial permits are taken: not to be asked for again before.
    private var noTrialsUntil: Instant?
    /// This sidecar's own finding while Redis is away.
    private var trippedLocallyUntil: Instant?

    public init(settings: BreakerSettings, snapshot: BreakerSnapshot = BreakerSnapshot()) {
        self.settings = settings
        self.snapshot = snapshot
    }

    /// May a call be made? Costs nothing but this.
    public func admission(now: Instant) -> Admission {
        switch snapshot.forced {
        case .closed, .disabled: return .allow
        case .open: return .refuse(retryAfter: Self.forcedRetryMilliseconds)
        case nil: break
        }
        if let trippedLocallyUntil, trippedLocallyUntil > now {
            return .refuse(retryAfter: trippedLocallyUntil.millisecondsRoundedUp(since: now))
        }
        switch snapshot.state {
        case .closed:
            return .allow
        case .open:
            guard let openUntil, openUntil > now else { return .askForTrial }
            return .refuse(retryAfter: openUntil.millisecondsRoundedUp(since: now))
        case .halfOpen:
            guard let noTrialsUntil, noTrialsUntil > now else { return .askForTrial }
            return .refuse(retryAfter: noTrialsUntil.millisecondsRoundedUp(since: now))
        }
    }

    /// The state that callers of this sidecar meet.
    public func actingState(now: Instant) -> BreakerSnapshot.State {
        switch snapshot.forced {
        case .closed, .disabled: return .closed
        case .open: return .open
        case nil: break
        }
        if let trippedLocallyUntil, trippedLocallyUntil > now { return .open }
        if snapshot.state == .open, let openUntil, openUntil <= now { return .halfOpen }
        return snapshot.state
    }

    /// Takes over what Redis says, if it is newer. Rates and counts are taken over within the same generation.
    /// - Parameters:
    ///   - redisTime: when it was said, in milliseconds of the epoch by Redis' clock.
    ///   - receivedAt: on this sidecar's clock.
    /// - Returns: whether the state changed.
    @discardableResult
    public mutating func apply(_ new: BreakerSnapshot, redisTime: Int64, receivedAt: Instant) -> Bool {
        guard new.generation >= snapshot.generation else { return false }
        guard new.generation > snapshot.generation else {
            snapshot = new
            return false
        }
        snapshot = new
        noTrialsUntil = nil
        trippedLocallyUntil = nil
        unsent = OutcomeSums()
        openUntil =
            new.state == .open && new.untilMilliseconds > 0
            // Redis compares whole milliseconds: one more, and it is never asked too early.
            ? receivedAt.advanced(byMilliseconds: max(0, new.untilMilliseconds - redisTime) + 1) : nil
        return true
    }

    /// All trial permits are taken.
    public mutating func trialsAreTaken(now: Instant, forMilliseconds milliseconds: Int64) {
        noTrialsUntil = now.advanced(byMilliseconds: milliseconds)
    }

    /// Counts the outcome of a call that was permitted under `generation`. Outcomes of another generation say nothing of
    /// the present one.
    public mutating func record(
        _ outcome: Outcome, latencyMilliseconds: Int64?, generation: Int64, now: Instant
    ) -> ReportAction {
        guard outcome != .ignore, generation == snapshot.generation, snapshot.state == .closed else { return .none }
        unsent.calls &+= 1
        if outcome == .error { unsent.failures &+= 1 }
        if let slowCall = settings.slowCall, let latencyMilliseconds, latencyMilliseconds >= slowCall.wholeMilliseconds {
            unsent.slow &+= 1
        }
        if snapshot.forced == nil, outcome == .error || unsent.slow > 0, (unsent + known).trips(settings) {
            return .sendNow
        }
        guard !isSendPlanned else { return .none }
        isSendPlanned = true
        return .sendAt(max(now, mayReportFrom))
    }

    /// The sums to send, if there are any.
    public mutating func takeUnsent(now: Instant) -> OutcomeSums? {
        isSendPlanned = false
        guard !unsent.isEmpty else { return nil }
        defer { unsent = OutcomeSums() }
        mayReportFrom = now.advanced(byMilliseconds: Self.reportIntervalMilliseconds)
        return unsent
    }

    /// Sums that were taken and certainly never arrived.
    public mutating func putBack(_ sums: OutcomeSums) {
        unsent = unsent + sums
    }

    /// Redis is away: judges what this sidecar alone has seen, for this sidecar alone.
    /// - Returns: whether it tripped.
    public mutating func judgeLocally(now: Instant) -> Bool {
        guard snapshot.forced == nil, snapshot.state == .closed, unsent.trips(settings) else { return false }
        unsent = OutcomeSums()
        trippedLocallyUntil = now.advanced(byMilliseconds: settings.openFor.lowerBound.wholeMilliseconds)
        return true
    }

    /// The fleet's sums at the last report, from their rates.
    private var known: OutcomeSums {
        let calls = Double(snapshot.calls)
        return OutcomeSums(
            calls: snapshot.calls,
            failures: Int64((calls * snapshot.failureRate).rounded()),
            slow: Int64((calls * snapshot.slowRate).rounded()))
    }
}

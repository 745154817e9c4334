/// One service's breaker as this sidecar acts on it: a copy of the fleet's state, what it has found by itself, and the
/// outcomes it has yet to report.
///
/// The state machine is that of Nygard's "Release It!" (closed, open, half-open). The decision to change the fleet's state
/// is taken in Redis, under the generation number; the copy only ever moves to a higher generation.
///
/// Not copyable: it is looked at for every call.
package struct Breaker: ~Copyable, Sendable {
    /// Whether a call may be made now.
    package enum Admission: Equatable, Sendable {
        case allow
        /// Not now; `retryAfter` is in milliseconds.
        case refuse(retryAfter: Int64)
        /// Only with one of the fleet's trial permits.
        case askForTrial
    }

    /// What is to be done after an outcome was recorded.
    package enum ReportAction: Equatable, Sendable {
        case none
        /// Send the sums then.
        case sendAt(Instant)
        /// They would trip the breaker: send them at once.
        case sendNow
        /// They would trip the breaker together with the sums under way: send them when Redis has answered those.
        case sendNext
        /// This sidecar has tripped for itself: tell the fleet, in which others may find the same.
        case vote(BreakerCause)
    }

    /// What this sidecar acts on alone.
    package struct OwnTrip: Hashable, Sendable {
        package var cause: BreakerCause
        package var until: Instant
    }

    /// How long a refusal by a forced state without an end is said to last.
    package static let forcedRetryMilliseconds: Int64 = 1000
    /// How long a caller is told to wait when all trial permits are under way, and for how long Redis is not asked again.
    package static let trialRetryMilliseconds: Int64 = 100
    /// How often sums are sent at most.
    package static let reportIntervalMilliseconds = OutcomeReports.intervalMilliseconds

    package private(set) var snapshot: BreakerSnapshot
    package var settings: BreakerSettings {
        didSet { if settings.window != oldValue.window { window = OutcomeWindow(settings.window) } }
    }
    private var openEnd = SharedEnd()
    private var forcedEnd = SharedEnd()
    /// When the open time is over on this sidecar's clock.
    package var openUntil: Instant? { openEnd.instant }
    /// When the forced state ends on this sidecar's clock; `nil`: not by itself.
    package var forcedUntil: Instant? { forcedEnd.instant }
    private var ownTrip: OwnTrip?
    /// The call that tries what this sidecar has opened for itself, or may not ask Redis about: no other does before.
    private var ownTrialUntil: Instant?
    /// How often in a row it has opened for itself: each time for twice as long.
    private var ownStreak = 0
    /// How many of its own trials have gone well since.
    private var ownSuccesses = 0
    private var window: OutcomeWindow
    private var reports = OutcomeReports()
    /// Half-open, and all trial permits are taken: not to be asked for again before.
    private var noTrialsUntil: Instant?

    package init(settings: BreakerSettings, snapshot: BreakerSnapshot = BreakerSnapshot()) {
        self.settings = settings
        self.snapshot = snapshot
        window = OutcomeWindow(settings.window)
    }

    // MARK: How it acts

    /// What an operator forces now: a forced state whose end has come stands no more, also when Redis cannot say so.
    package func forced(now: Instant) -> BreakerSnapshot.Forced? {
        if let forcedUntil, forcedUntil <= now { nil } else { snapshot.forced }
    }

    /// What this sidecar has found by itself and acts on now.
    package func ownTrip(now: Instant) -> OwnTrip? {
        guard let ownTrip, ownTrip.until > now else { return nil }
        return ownTrip
    }

    /// Its own open time is over, and no call has shown yet that the service is well. What a limit or a monitor has opened, these
    /// close.
    private func isTriedAlone(now: Instant) -> Bool {
        guard let ownTrip, ownTrip.until <= now else { return false }
        return [.failures, .slow, .consecutive].contains(ownTrip.cause)
    }

    /// May a call be made? Costs nothing but this.
    package func admission(now: Instant) -> Admission {
        if let forced = forced(now: now) { return admission(by: forced, now: now) }
        guard !settings.isMetricsOnly else { return .allow }
        if let trip = ownTrip(now: now) { return .refuse(retryAfter: trip.until.millisecondsRoundedUp(since: now)) }
        // It was, and Redis has not said so yet: then it is closed.
        guard snapshot.forced == nil else { return .allow }
        if isTriedAlone(now: now), let ownTrialUntil, ownTrialUntil > now {
            return .refuse(retryAfter: Self.trialRetryMilliseconds)
        }
        switch snapshot.state {
        case .closed:
            return .allow
        case .open:
            guard let openUntil, openUntil > now else { return trialAdmission }
            return .refuse(retryAfter: openUntil.millisecondsRoundedUp(since: now))
        case .halfOpen:
            guard let noTrialsUntil, noTrialsUntil > now else { return trialAdmission }
            return .refuse(retryAfter: noTrialsUntil.millisecondsRoundedUp(since: now))
        }
    }

    private func admission(by forced: BreakerSnapshot.Forced, now: Instant) -> Admission {
        guard forced == .open else { return .allow }
        let end = forcedUntil?.millisecondsRoundedUp(since: now)
        return .refuse(retryAfter: end ?? Self.forcedRetryMilliseconds)
    }

    /// What the limit has opened, the limit tries out: it grants as many calls as there is room for.
    private var trialAdmission: Admission { isOpenByLimit ? .allow : .askForTrial }

    /// It is open, or half-open after that, for no other reason than the limit.
    package var isOpenByLimit: Bool {
        snapshot.forced == nil && snapshot.state != .closed && snapshot.cause == BreakerCause.limit.rawValue
    }

    /// The state that callers of this sidecar meet.
    package func actingState(now: Instant) -> BreakerSnapshot.State {
        if let forced = forced(now: now) { return forced == .open ? .open : .closed }
        if settings.isMetricsOnly { return .closed }
        if ownTrip(now: now) != nil { return .open }
        if snapshot.forced != nil { return .closed }
        if snapshot.state == .closed, isTriedAlone(now: now) { return .halfOpen }
        if snapshot.state == .open, let openUntil, openUntil <= now { return .halfOpen }
        return snapshot.state
    }

    // MARK: Following the fleet

    /// Takes over what Redis says, if it is not older. Within a generation only rates, counts and ends are news.
    /// - Parameters:
    ///   - redisTime: when it was said, in milliseconds of the epoch by Redis' clock.
    ///   - sentAt: when Redis was asked, on this sidecar's clock; `nil`: a message, which may be late.
    ///   - receivedAt: on this sidecar's clock.
    /// - Returns: whether the state changed.
    @discardableResult
    package mutating func apply(
        _ new: BreakerSnapshot, redisTime: Int64, sentAt: Instant? = nil, receivedAt: Instant
    ) -> Bool {
        guard new.generation >= snapshot.generation else { return false }
        let isChange = new.generation > snapshot.generation
        let reading = SharedEnd.Reading(
            redisTime: redisTime, sinceMilliseconds: new.sinceMilliseconds, sentAt: sentAt, receivedAt: receivedAt)
        let openNumber = new.state == .open ? new.untilMilliseconds : 0
        let forcedNumber = new.forced == nil ? 0 : new.forcedUntilMilliseconds
        if isChange {
            noTrialsUntil = nil
            ownTrip = nil
            ownTrialUntil = nil
            (ownStreak, ownSuccesses) = (0, 0)
            reports.generationEnded()
            window.removeAll()
            openEnd = SharedEnd(openNumber, reading)
            forcedEnd = SharedEnd(forcedNumber, reading)
        } else {
            // A message that a longer open time has overtaken.
            if sentAt == nil, new.untilMilliseconds < snapshot.untilMilliseconds { return false }
            openEnd.follow(openNumber, reading, mayBeLater: new.cause == BreakerCause.outage.rawValue)
            forcedEnd.follow(forcedNumber, reading, mayBeLater: false)
        }
        snapshot = new
        return isChange
    }

    /// How this sidecar knows when the state ends.
    package func ends(now: Instant) -> BreakerEnds {
        BreakerEnds(open: BreakerEnds.End(openEnd, now: now), forced: BreakerEnds.End(forcedEnd, now: now))
    }

    /// Redis' clock has jumped: an end that stands in Redis is wrong by now.
    package var knowsBetter: Bool { openEnd.correction != nil || forcedEnd.correction != nil }

    /// All trial permits are taken.
    package mutating func trialsAreTaken(now: Instant, forMilliseconds milliseconds: Int64) {
        noTrialsUntil = now.advanced(byMilliseconds: milliseconds)
    }

    /// A call is being made: as the one that tries what this sidecar has opened for itself, if it has. Says whether it is.
    package mutating func callBegins(lifetimeMilliseconds: Int64, now: Instant) -> Bool {
        guard snapshot.state == .closed, snapshot.forced == nil, isTriedAlone(now: now) else { return false }
        ownTrialUntil = now.advanced(byMilliseconds: lifetimeMilliseconds)
        return true
    }

    /// Redis is away and cannot count the fleet's trials: of this sidecar one at a time is made, until as many have gone well as the
    /// fleet's would. `nil`: not now; otherwise whether the call is one.
    package mutating func beginTrialAlone(lifetimeMilliseconds: Int64, now: Instant) -> Bool? {
        guard ownSuccesses < settings.halfOpenPermits else { return false }
        guard ownTrialUntil.map({ $0 <= now }) ?? true else { return nil }
        ownTrialUntil = now.advanced(byMilliseconds: lifetimeMilliseconds)
        return true
    }

    /// A trial of this sidecar's own came to nothing: its call was not made.
    package mutating func ownTrialWasNotMade() {
        ownTrialUntil = nil
    }

    // MARK: Outcomes

    /// Counts the outcome of a call that was permitted under `generation`. Outcomes of another generation say nothing of
    /// the present one.
    /// - Parameter isOwnTrial: it tried what this sidecar had opened for itself.
    package mutating func record(
        _ outcome: Outcome, latencyMilliseconds: Int64?, generation: Int64, isOwnTrial: Bool = false, now: Instant
    ) -> ReportAction {
        guard generation == snapshot.generation else { return .none }
        if isOwnTrial { ownTrialUntil = nil }
        guard outcome != .ignore else { return .none }
        let isFailure = outcome == .error
        let isSlow = settings.isSlow(latencyMilliseconds: latencyMilliseconds)
        guard snapshot.state == .closed else {
            // Let through without a trial permit, because Redis is away: one failure opens it again for this sidecar.
            // What was permitted before it opened for itself says nothing of now.
            if isFailure, mayTrip(now: now), !isOpenByLimit, isOwnTrial || !isTriedAlone(now: now) { trip(.failures, now: now) }
            if isOwnTrial, !isFailure {
                ownSuccesses += 1
                // It is well, as far as this sidecar can know.
                if ownSuccesses >= settings.halfOpenPermits { (ownTrip, ownStreak) = (nil, 0) }
            }
            return .none
        }
        if isTriedAlone(now: now), let trip = ownTrip {
            reports.add(isFailure: isFailure, isSlow: isSlow)
            // What was permitted before it opened says nothing of now.
            guard isOwnTrial else { return reports.plan(isUrgent: false, now: now) }
            window.removeAll()
            guard !isFailure, !(trip.cause == .slow && isSlow) else {
                self.trip(trip.cause, now: now)
                return settings.isByReporters ? .vote(trip.cause) : reports.plan(isUrgent: false, now: now)
            }
            ownTrip = nil
            ownStreak = 0
            return reports.plan(isUrgent: false, now: now)
        }
        if let ownTrip, ownTrip.until <= now {
            self.ownTrip = nil
            window.removeAll()
        }
        window.add(isFailure: isFailure, isSlow: isSlow, now: now)
        reports.add(isFailure: isFailure, isSlow: isSlow)
        guard isFailure || isSlow, mayTrip(now: now) else { return reports.plan(isUrgent: false, now: now) }
        guard settings.isByReporters else {
            let isUrgent = known.followed(by: reports.unanswered).cause(by: settings) != nil
            return reports.plan(isUrgent: isUrgent, now: now)
        }
        guard let cause = window.sums(now: now).cause(by: settings) else { return reports.plan(isUrgent: false, now: now) }
        trip(cause, now: now)
        return .vote(cause)
    }

    /// What is to be done with the sums that are not sent yet.
    package mutating func planReport(now: Instant) -> ReportAction { reports.plan(isUrgent: false, now: now) }

    /// The time of `ReportAction.sendAt` has come.
    package mutating func plannedReportIsDue(now: Instant) -> ReportAction { reports.planIsDue(now: now) }

    /// The sums to send, if there are any and no others are under way. `reportEnded` must follow.
    package mutating func takeUnsent(now: Instant) -> OutcomeSums? {
        reports.take(now: now, inWindow: window.sums(now: now))
    }

    /// The sums that were taken were answered, or failed.
    /// - Parameters:
    ///   - lost: the sums, if they certainly never arrived.
    ///   - generation: under which they were taken.
    package mutating func reportEnded(lost: OutcomeSums?, generation: Int64, now: Instant) -> ReportAction {
        reports.ended()
        if let lost {
            if generation == snapshot.generation { reports.putBack(lost) }
            return .none
        }
        let isUrgent =
            mayTrip(now: now) && !settings.isByReporters && known.followed(by: reports.unsent).cause(by: settings) != nil
        return reports.plan(isUrgent: isUrgent, now: now)
    }

    // MARK: Alone

    /// Redis is away: judges what this sidecar alone has seen, for this sidecar alone.
    /// - Returns: why it tripped; `nil`: it did not.
    package mutating func judgeAlone(now: Instant) -> BreakerCause? {
        guard snapshot.state == .closed, mayTrip(now: now), !isTriedAlone(now: now),
            let cause = window.sums(now: now).cause(by: settings)
        else {
            return nil
        }
        trip(cause, now: now)
        return cause
    }

    /// Opens for this sidecar alone, for `milliseconds`; of two reasons the one that lasts longer stands.
    /// - Returns: whether it was not open for itself before.
    @discardableResult
    package mutating func tripAlone(_ cause: BreakerCause, forMilliseconds milliseconds: Int64, now: Instant) -> Bool {
        let before = ownTrip(now: now)
        let until = now.advanced(byMilliseconds: milliseconds)
        if let before, before.until > until { return false }
        ownTrip = OwnTrip(cause: cause, until: until)
        ownTrialUntil = nil
        ownSuccesses = 0
        return before == nil
    }

    /// What this sidecar tripped for alone, for this reason, is over.
    package mutating func recoverAlone(from cause: BreakerCause) {
        if ownTrip?.cause == cause { ownTrip = nil }
    }

    private mutating func trip(_ cause: BreakerCause, now: Instant) {
        let openFor = settings.openFor
        let longest = openFor.upperBound.wholeMilliseconds
        let length = min(longest, openFor.lowerBound.wholeMilliseconds << Int64(min(ownStreak, 20)))
        ownStreak += 1
        tripAlone(cause, forMilliseconds: length, now: now)
    }

    private func mayTrip(now: Instant) -> Bool {
        forced(now: now) == nil && !settings.isMetricsOnly && ownTrip(now: now) == nil
    }

    /// The fleet's sums at the last report, from their rates.
    private var known: OutcomeSums {
        func count(_ share: Double) -> Int64 {
            // What somebody has written into the hash need not be a share.
            Int64(exactly: (Double(snapshot.calls) * share).rounded()) ?? 0
        }
        return OutcomeSums(
            calls: snapshot.calls, failures: count(snapshot.failureRate), slow: count(snapshot.slowRate),
            trailingFailures: snapshot.consecutive)
    }
}

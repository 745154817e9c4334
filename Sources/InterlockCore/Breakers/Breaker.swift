/// One sidecar's view of a service's breaker: a copy of the fleet's state, this sidecar's own findings, and the
/// outcomes that it has yet to report.
///
/// The state machine is that of Nygard's "Release It!" (closed, open, half-open). Redis decides on changes of the
/// fleet's state, guarded by the generation number; the copy only ever moves to a higher generation.
///
/// Not copyable, because it is read for every call.
package struct Breaker: ~Copyable, Sendable {
    /// Whether a call may be made now.
    package enum Admission: Equatable, Sendable {
        case allow
        /// Refuses the call. `retryAfter` is in milliseconds.
        case refuse(retryAfter: Int64)
        /// Allows the call only with one of the fleet's trial permits.
        case requestTrial
    }

    /// The caller's next step after an outcome was recorded.
    package enum ReportAction: Equatable, Sendable {
        case none
        /// Send the sums at this time.
        case sendAt(Instant)
        /// Send the sums immediately, because they would trip the breaker.
        case sendNow
        /// Send the sums when Redis has answered those in flight: together they would trip the breaker.
        case sendNext
        /// Report to the fleet that this sidecar has tripped, because other sidecars may find the same.
        case vote(BreakerCause)
    }

    /// A trip that only this sidecar acts on.
    package struct LocalTrip: Hashable, Sendable {
        package var cause: BreakerCause
        package var until: Instant
    }

    /// The retry delay given to callers refused by a forced state without an end.
    package static let forcedRetryMilliseconds: Int64 = 1000
    /// The retry delay given to callers, and the pause before Redis is asked again, when all trial permits are taken.
    package static let trialRetryMilliseconds: Int64 = 100
    /// The minimum interval between two reports.
    package static let reportIntervalMilliseconds = OutcomeReports.intervalMilliseconds

    package private(set) var snapshot: BreakerSnapshot
    package var settings: BreakerSettings {
        didSet { if settings.window != oldValue.window { window = OutcomeWindow(settings.window) } }
    }
    private var openEnd = SharedEnd()
    private var forcedEnd = SharedEnd()
    /// The end of the open time, on this sidecar's clock.
    package var openUntil: Instant? { openEnd.instant }
    /// The end of the forced state, on this sidecar's clock; `nil` if it does not end by itself.
    package var forcedUntil: Instant? { forcedEnd.instant }
    private var localTrip: LocalTrip?
    /// The deadline for the outcome of this sidecar's local trial, after a local trip or while Redis is
    /// unreachable. It makes no other call meanwhile.
    private var localTrialUntil: Instant?
    /// The number of consecutive local trips. Each doubles the open time.
    private var localStreak = 0
    /// The number of successful local trials since the last local trip.
    private var localSuccesses = 0
    private var window: OutcomeWindow
    private var reports = OutcomeReports()
    /// The time before which a half-open breaker asks for no trial permit, because all are taken.
    private var noTrialsUntil: Instant?

    package init(settings: BreakerSettings, snapshot: BreakerSnapshot = BreakerSnapshot()) {
        self.settings = settings
        self.snapshot = snapshot
        window = OutcomeWindow(settings.window)
    }

    // MARK: Acting on the state

    /// Returns the state that an operator forces now. A forced state ends on time even if Redis cannot confirm it.
    package func forced(now: Instant) -> BreakerSnapshot.Forced? {
        if let forcedUntil, forcedUntil <= now { nil } else { snapshot.forced }
    }

    /// Returns the local trip that is in effect now.
    package func localTrip(now: Instant) -> LocalTrip? {
        guard let localTrip, localTrip.until > now else { return nil }
        return localTrip
    }

    /// Returns whether a local trip for failing or slow calls has ended and no call has succeeded since. Local trips
    /// for other causes need no trial.
    private func awaitsLocalTrial(now: Instant) -> Bool {
        guard let localTrip, localTrip.until <= now else { return false }
        return [.failures, .slow, .consecutive].contains(localTrip.cause)
    }

    /// Returns whether a call may be made. Does no I/O.
    package func admission(now: Instant) -> Admission {
        if let forced = forced(now: now) { return admission(by: forced, now: now) }
        guard !settings.isMetricsOnly else { return .allow }
        if let trip = localTrip(now: now) { return .refuse(retryAfter: trip.until.millisecondsRoundedUp(since: now)) }
        // A forced state whose end Redis has not confirmed yet counts as closed.
        guard snapshot.forced == nil else { return .allow }
        if awaitsLocalTrial(now: now), let localTrialUntil, localTrialUntil > now {
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

    /// The admission of a trial. If the limit opened the breaker, the limit itself decides how many calls it grants.
    private var trialAdmission: Admission { isOpenByLimit ? .allow : .requestTrial }

    /// Whether the limit is the only reason why the breaker is open or half-open.
    package var isOpenByLimit: Bool {
        snapshot.forced == nil && snapshot.state != .closed && snapshot.cause == BreakerCause.limit.rawValue
    }

    /// Returns the state that this sidecar's callers see.
    package func actingState(now: Instant) -> BreakerSnapshot.State {
        if let forced = forced(now: now) { return forced == .open ? .open : .closed }
        if settings.isMetricsOnly { return .closed }
        if localTrip(now: now) != nil { return .open }
        if snapshot.forced != nil { return .closed }
        if snapshot.state == .closed, awaitsLocalTrial(now: now) { return .halfOpen }
        if snapshot.state == .open, let openUntil, openUntil <= now { return .halfOpen }
        return snapshot.state
    }

    // MARK: Following the fleet

    /// Applies a state from Redis unless it is older. Within a generation only rates, counts and ends can change.
    /// - Parameters:
    ///   - redisTime: the time of the state, as Unix time in milliseconds by the Redis clock.
    ///   - sentAt: the time of the request, on this sidecar's clock; `nil` for a message, which may be late.
    ///   - receivedAt: the time of arrival, on this sidecar's clock.
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
            localTrip = nil
            localTrialUntil = nil
            (localStreak, localSuccesses) = (0, 0)
            reports.generationEnded()
            window.removeAll()
            openEnd = SharedEnd(openNumber, reading)
            forcedEnd = SharedEnd(forcedNumber, reading)
        } else {
            // A message that arrives after a later end has become known is out of date.
            if sentAt == nil, new.untilMilliseconds < snapshot.untilMilliseconds { return false }
            openEnd.follow(openNumber, reading, mayBeExtended: new.cause == BreakerCause.outage.rawValue)
            forcedEnd.follow(forcedNumber, reading, mayBeExtended: false)
        }
        snapshot = new
        return isChange
    }

    /// Returns the ends of the state as this sidecar knows them.
    package func ends(now: Instant) -> BreakerEnds {
        BreakerEnds(open: BreakerEnds.End(openEnd, now: now), forced: BreakerEnds.End(forcedEnd, now: now))
    }

    /// Whether an end in Redis is wrong because the Redis clock has jumped.
    package var hasCorrection: Bool { openEnd.correction != nil || forcedEnd.correction != nil }

    /// Records that all trial permits are taken, so that none is requested for `milliseconds`.
    package mutating func markTrialsExhausted(now: Instant, forMilliseconds milliseconds: Int64) {
        noTrialsUntil = now.advanced(byMilliseconds: milliseconds)
    }

    /// Begins a call. Returns whether it is the trial after a local trip.
    package mutating func beginCall(lifetimeMilliseconds: Int64, now: Instant) -> Bool {
        guard snapshot.state == .closed, snapshot.forced == nil, awaitsLocalTrial(now: now) else { return false }
        localTrialUntil = now.advanced(byMilliseconds: lifetimeMilliseconds)
        return true
    }

    /// Begins a trial while Redis is unreachable and cannot count the fleet's trials. This sidecar makes one trial at a
    /// time, until `halfOpenPermits` of them have succeeded.
    /// - Returns: whether the call is a trial; `nil` if it must not be made now.
    package mutating func beginTrialLocally(lifetimeMilliseconds: Int64, now: Instant) -> Bool? {
        guard localSuccesses < settings.halfOpenPermits else { return false }
        guard localTrialUntil.map({ $0 <= now }) ?? true else { return nil }
        localTrialUntil = now.advanced(byMilliseconds: lifetimeMilliseconds)
        return true
    }

    /// Ends a local trial whose call was not made.
    package mutating func localTrialWasNotMade() {
        localTrialUntil = nil
    }

    // MARK: Outcomes

    /// Counts the outcome of a call that was permitted under `generation`. Outcomes of other generations are ignored.
    /// - Parameter isLocalTrial: whether the call was a local trial.
    package mutating func record(
        _ outcome: Outcome, latencyMilliseconds: Int64?, generation: Int64, isLocalTrial: Bool = false, now: Instant
    ) -> ReportAction {
        guard generation == snapshot.generation else { return .none }
        if isLocalTrial { localTrialUntil = nil }
        guard outcome != .ignore else { return .none }
        let isFailure = outcome == .error
        let isSlow = settings.isSlow(latencyMilliseconds: latencyMilliseconds)
        guard snapshot.state == .closed else {
            // The call had no trial permit, because Redis is unreachable. One failure opens the breaker again for this
            // sidecar. The outcome of a call that was permitted before the local trip is out of date.
            if isFailure, mayTrip(now: now), !isOpenByLimit, isLocalTrial || !awaitsLocalTrial(now: now) {
                trip(.failures, now: now)
            }
            if isLocalTrial, !isFailure {
                localSuccesses += 1
                // As far as this sidecar can know, the service has recovered.
                if localSuccesses >= settings.halfOpenPermits { (localTrip, localStreak) = (nil, 0) }
            }
            return .none
        }
        if awaitsLocalTrial(now: now), let trip = localTrip {
            reports.add(isFailure: isFailure, isSlow: isSlow)
            // The outcome of a call that was permitted before the local trip is out of date.
            guard isLocalTrial else { return reports.plan(isUrgent: false, now: now) }
            window.removeAll()
            guard !isFailure, !(trip.cause == .slow && isSlow) else {
                self.trip(trip.cause, now: now)
                return settings.isDecidedByVotes ? .vote(trip.cause) : reports.plan(isUrgent: false, now: now)
            }
            localTrip = nil
            localStreak = 0
            return reports.plan(isUrgent: false, now: now)
        }
        if let localTrip, localTrip.until <= now {
            self.localTrip = nil
            window.removeAll()
        }
        window.add(isFailure: isFailure, isSlow: isSlow, now: now)
        reports.add(isFailure: isFailure, isSlow: isSlow)
        guard isFailure || isSlow, mayTrip(now: now) else { return reports.plan(isUrgent: false, now: now) }
        guard settings.isDecidedByVotes else {
            let isUrgent = fleetSums.followed(by: reports.unanswered).cause(by: settings) != nil
            return reports.plan(isUrgent: isUrgent, now: now)
        }
        guard let cause = window.sums(now: now).cause(by: settings) else { return reports.plan(isUrgent: false, now: now) }
        trip(cause, now: now)
        return .vote(cause)
    }

    /// Plans the report of the unsent sums.
    package mutating func planReport(now: Instant) -> ReportAction { reports.plan(isUrgent: false, now: now) }

    /// Plans the report when the time of `ReportAction.sendAt` has come.
    package mutating func handlePlannedReport(now: Instant) -> ReportAction { reports.handlePlannedReport(now: now) }

    /// Removes and returns the sums to send; `nil` if there are none or a report is in flight. `reportEnded` must
    /// follow.
    package mutating func takeUnsent(now: Instant) -> OutcomeSums? {
        reports.take(now: now, inWindow: window.sums(now: now))
    }

    /// Ends a report that was answered or failed.
    /// - Parameters:
    ///   - lost: the sums, if they are known not to have arrived.
    ///   - generation: the generation under which the sums were taken.
    package mutating func reportEnded(lost: OutcomeSums?, generation: Int64, now: Instant) -> ReportAction {
        reports.ended()
        if let lost {
            if generation == snapshot.generation { reports.putBack(lost) }
            return .none
        }
        let isUrgent =
            mayTrip(now: now) && !settings.isDecidedByVotes && fleetSums.followed(by: reports.unsent).cause(by: settings) != nil
        return reports.plan(isUrgent: isUrgent, now: now)
    }

    // MARK: Local trips

    /// Evaluates this sidecar's own outcomes, for itself only, while Redis is unreachable.
    /// - Returns: the cause of the trip; `nil` if it did not trip.
    package mutating func evaluateLocally(now: Instant) -> BreakerCause? {
        guard snapshot.state == .closed, mayTrip(now: now), !awaitsLocalTrial(now: now),
            let cause = window.sums(now: now).cause(by: settings)
        else {
            return nil
        }
        trip(cause, now: now)
        return cause
    }

    /// Opens the breaker for this sidecar only, for `milliseconds`. A longer trip stays in effect.
    /// - Returns: whether this sidecar had no local trip before.
    @discardableResult
    package mutating func tripLocally(_ cause: BreakerCause, forMilliseconds milliseconds: Int64, now: Instant) -> Bool {
        let before = localTrip(now: now)
        let until = now.advanced(byMilliseconds: milliseconds)
        if let before, before.until > until { return false }
        localTrip = LocalTrip(cause: cause, until: until)
        localTrialUntil = nil
        localSuccesses = 0
        return before == nil
    }

    /// Ends the local trip if it has this cause.
    package mutating func recoverLocally(from cause: BreakerCause) {
        if localTrip?.cause == cause { localTrip = nil }
    }

    private mutating func trip(_ cause: BreakerCause, now: Instant) {
        let openFor = settings.openFor
        let maximum = openFor.upperBound.wholeMilliseconds
        let length = min(maximum, openFor.lowerBound.wholeMilliseconds << Int64(min(localStreak, 20)))
        localStreak += 1
        tripLocally(cause, forMilliseconds: length, now: now)
    }

    private func mayTrip(now: Instant) -> Bool {
        forced(now: now) == nil && !settings.isMetricsOnly && localTrip(now: now) == nil
    }

    /// The fleet's sums at the last report, computed from its rates.
    private var fleetSums: OutcomeSums {
        func count(_ fraction: Double) -> Int64 {
            // The hash in Redis may hold any number, because other software can write to it.
            Int64(exactly: (Double(snapshot.calls) * fraction).rounded()) ?? 0
        }
        return OutcomeSums(
            calls: snapshot.calls, failures: count(snapshot.failureRate), slow: count(snapshot.slowRate),
            trailingFailures: snapshot.consecutive)
    }
}

/// One sidecar's view of a service's breaker: a copy of the fleet's state, this sidecar's own findings, and the
/// outcomes that it has not yet reported.
///
/// The state machine is that of Nygard's "Release It!" (closed, open, half-open). Redis decides on changes of the
/// fleet's state, guarded by the generation number; the copy only ever moves to a higher generation.
///
/// The breaker is noncopyable, because every call reads it and a copy would be expensive.
package struct Breaker: ~Copyable, Sendable {
    /// Whether a call may be made now.
    package enum Admission: Equatable, Sendable {
        /// The call may be made.
        case allow
        /// The call is refused.
        case refuse(retryAfterMilliseconds: Int64)
        /// The call may be made only with one of the fleet's trial permits.
        case requestTrial
    }

    /// The caller's next step after the record of an outcome.
    package enum ReportAction: Equatable, Sendable {
        case none
        /// Send the sums at this time.
        case sendAt(Instant)
        /// Send the sums immediately, because they would trip the breaker.
        case sendNow
        /// Send the sums when Redis has answered the report in flight. Both together would trip the breaker.
        case sendNext
        /// Report to the fleet that this sidecar has tripped, because the fleet counts the sidecars that find the same.
        case vote(BreakerCause)
    }

    /// A trip that only this sidecar acts on.
    package struct LocalTrip: Hashable, Sendable {
        package var cause: BreakerCause
        package var until: Instant
    }

    /// The retry delay given to callers refused by a forced state without an end.
    package static let forcedRetryMilliseconds: Int64 = 1000
    /// The retry delay given to callers when all trial permits are taken, and the pause before the next request for
    /// one.
    package static let trialRetryMilliseconds: Int64 = 100
    /// The minimum interval between two reports that are not urgent.
    package static let reportIntervalMilliseconds = OutcomeReports.intervalMilliseconds

    package private(set) var snapshot: BreakerSnapshot
    package var settings: BreakerSettings {
        didSet { if settings.window != oldValue.window { window = OutcomeWindow(settings.window) } }
    }
    private var openEnd = SharedEnd()
    private var forcedEnd = SharedEnd()
    /// The end of the open time, on this sidecar's clock.
    package var openUntil: Instant? { openEnd.instant }
    /// The end of the forced state, on this sidecar's clock; `nil` if the state remains until an operator ends it.
    package var forcedUntil: Instant? { forcedEnd.instant }
    private var localTrip: LocalTrip?
    /// The deadline for the outcome of this sidecar's local trial, after a local trip or while Redis is unreachable.
    /// The sidecar makes no other call meanwhile.
    private var localTrialUntil: Instant?
    /// The number of consecutive local trips. Each doubles the open time.
    private var localStreak = 0
    /// The number of successful local trials since the last local trip.
    private var localSuccesses = 0
    private var window: OutcomeWindow
    private var reports = OutcomeReports()
    /// The time before which a half-open breaker requests no trial permit, because all are taken.
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

    /// Returns the local trip if it is in effect at `now`.
    package func localTrip(now: Instant) -> LocalTrip? {
        guard let localTrip, localTrip.until > now else { return nil }
        return localTrip
    }

    /// Returns whether a local trip for failing or slow calls is over and no call has succeeded since. A local trip for
    /// another cause requires no trial.
    private func awaitsLocalTrial(now: Instant) -> Bool {
        guard let localTrip, localTrip.until <= now else { return false }
        return [.failures, .slow, .consecutive].contains(localTrip.cause)
    }

    /// Returns whether a call may be made. Does no I/O.
    package func admission(now: Instant) -> Admission {
        if let forced = forced(now: now) { return admission(by: forced, now: now) }
        guard !settings.isMetricsOnly else { return .allow }
        if let trip = localTrip(now: now) {
            return .refuse(retryAfterMilliseconds: trip.until.millisecondsRoundedUp(since: now))
        }
        // Until Redis confirms the end of a forced state, the breaker counts as closed.
        guard snapshot.forced == nil else { return .allow }
        if awaitsLocalTrial(now: now), let localTrialUntil, localTrialUntil > now {
            return .refuse(retryAfterMilliseconds: Self.trialRetryMilliseconds)
        }
        switch snapshot.state {
        case .closed:
            return .allow
        case .open:
            guard let openUntil, openUntil > now else { return trialAdmission }
            return .refuse(retryAfterMilliseconds: openUntil.millisecondsRoundedUp(since: now))
        case .halfOpen:
            guard let noTrialsUntil, noTrialsUntil > now else { return trialAdmission }
            return .refuse(retryAfterMilliseconds: noTrialsUntil.millisecondsRoundedUp(since: now))
        }
    }

    private func admission(by forced: BreakerSnapshot.Forced, now: Instant) -> Admission {
        guard forced == .open else { return .allow }
        let remainingMilliseconds = forcedUntil?.millisecondsRoundedUp(since: now)
        return .refuse(retryAfterMilliseconds: remainingMilliseconds ?? Self.forcedRetryMilliseconds)
    }

    /// The admission of a trial. If a limit opened the breaker, the limit itself decides how many calls may be made.
    private var trialAdmission: Admission { isOpenByLimit ? .allow : .requestTrial }

    /// Whether a limit is the only cause of the breaker's open or half-open state.
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

    /// Applies a state from Redis, unless it is out of date. Within a generation, only rates, counts and ends can
    /// change.
    /// - Parameters:
    ///   - redisTimeMilliseconds: the time of the state, as Unix time in milliseconds by the Redis clock.
    ///   - sentAt: the time of the request, on this sidecar's clock; `nil` for a message, which may be late.
    ///   - receivedAt: the time of arrival, on this sidecar's clock.
    /// - Returns: whether a new generation began.
    @discardableResult
    package mutating func apply(
        _ newSnapshot: BreakerSnapshot, redisTimeMilliseconds: Int64, sentAt: Instant? = nil, receivedAt: Instant
    ) -> Bool {
        guard newSnapshot.generation >= snapshot.generation else { return false }
        let isNewGeneration = newSnapshot.generation > snapshot.generation
        let reading = SharedEnd.Reading(
            redisTimeMilliseconds: redisTimeMilliseconds, sinceMilliseconds: newSnapshot.sinceMilliseconds, sentAt: sentAt,
            receivedAt: receivedAt)
        let openEndMilliseconds = newSnapshot.state == .open ? newSnapshot.untilMilliseconds : 0
        let forcedEndMilliseconds = newSnapshot.forced == nil ? 0 : newSnapshot.forcedUntilMilliseconds
        if isNewGeneration {
            noTrialsUntil = nil
            localTrip = nil
            localTrialUntil = nil
            (localStreak, localSuccesses) = (0, 0)
            reports.generationEnded()
            window.removeAll()
            openEnd = SharedEnd(openEndMilliseconds, reading)
            forcedEnd = SharedEnd(forcedEndMilliseconds, reading)
        } else {
            // A message with an earlier end than the known one is out of date.
            if sentAt == nil, newSnapshot.untilMilliseconds < snapshot.untilMilliseconds { return false }
            openEnd.follow(
                openEndMilliseconds, reading, mayBeExtended: newSnapshot.cause == BreakerCause.outage.rawValue)
            forcedEnd.follow(forcedEndMilliseconds, reading, mayBeExtended: false)
        }
        snapshot = newSnapshot
        return isNewGeneration
    }

    /// Returns the ends of the state as this sidecar knows them.
    package func ends(now: Instant) -> BreakerEnds {
        BreakerEnds(open: BreakerEnds.End(openEnd, now: now), forced: BreakerEnds.End(forcedEnd, now: now))
    }

    /// Whether Redis stores a wrong end, because the Redis clock has jumped.
    package var hasCorrection: Bool { openEnd.correction != nil || forcedEnd.correction != nil }

    /// Records that all trial permits are taken. The breaker requests no trial permit for `milliseconds`.
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
    /// time, until `halfOpenPermits` trials have succeeded. After that, it makes all calls.
    /// - Returns: whether the call is a trial; `nil` if the call must not be made now.
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
        if awaitsLocalTrial(now: now), let localTrip {
            reports.add(isFailure: isFailure, isSlow: isSlow)
            // The outcome of a call that was permitted before the local trip is out of date.
            guard isLocalTrial else { return reports.scheduleReport(isUrgent: false, now: now) }
            window.removeAll()
            guard !isFailure, !(localTrip.cause == .slow && isSlow) else {
                trip(localTrip.cause, now: now)
                return settings.isDecidedByVotes ? .vote(localTrip.cause) : reports.scheduleReport(isUrgent: false, now: now)
            }
            self.localTrip = nil
            localStreak = 0
            return reports.scheduleReport(isUrgent: false, now: now)
        }
        if let localTrip, localTrip.until <= now {
            self.localTrip = nil
            window.removeAll()
        }
        window.add(isFailure: isFailure, isSlow: isSlow, now: now)
        reports.add(isFailure: isFailure, isSlow: isSlow)
        guard isFailure || isSlow, mayTrip(now: now) else { return reports.scheduleReport(isUrgent: false, now: now) }
        guard settings.isDecidedByVotes else {
            let isUrgent = fleetSums.followed(by: reports.unanswered).cause(by: settings) != nil
            return reports.scheduleReport(isUrgent: isUrgent, now: now)
        }
        guard let cause = window.sums(now: now).cause(by: settings) else {
            return reports.scheduleReport(isUrgent: false, now: now)
        }
        trip(cause, now: now)
        return .vote(cause)
    }

    /// Schedules the report of the unsent sums.
    package mutating func scheduleReport(now: Instant) -> ReportAction {
        reports.scheduleReport(isUrgent: false, now: now)
    }

    /// Handles the time that `ReportAction.sendAt` named: decides whether to send the sums now.
    package mutating func scheduledReportDue(now: Instant) -> ReportAction { reports.scheduledReportDue(now: now) }

    /// Removes and returns the sums to send; `nil` if there is nothing to send or a report is in flight. After sums,
    /// `reportEnded` must follow.
    package mutating func takeUnsent(now: Instant) -> OutcomeSums? {
        reports.take(now: now, inWindow: window.sums(now: now))
    }

    /// Records that a report was answered or failed.
    /// - Parameters:
    ///   - lost: the sums of the report if Redis is known not to have counted them; otherwise `nil`.
    ///   - generation: the generation under which the sums were taken.
    package mutating func reportEnded(lost: OutcomeSums?, generation: Int64, now: Instant) -> ReportAction {
        reports.finishReport()
        if let lost {
            if generation == snapshot.generation { reports.putBack(lost) }
            return .none
        }
        let isUrgent =
            mayTrip(now: now) && !settings.isDecidedByVotes
            && fleetSums.followed(by: reports.unsent).cause(by: settings) != nil
        return reports.scheduleReport(isUrgent: isUrgent, now: now)
    }

    // MARK: Local trips

    /// Trips the breaker for this sidecar only, if its own outcomes require it. For use while Redis is unreachable.
    /// - Returns: the cause of the trip; `nil` if the breaker did not trip.
    package mutating func evaluateLocally(now: Instant) -> BreakerCause? {
        guard snapshot.state == .closed, mayTrip(now: now), !awaitsLocalTrial(now: now),
            let cause = window.sums(now: now).cause(by: settings)
        else {
            return nil
        }
        trip(cause, now: now)
        return cause
    }

    /// Opens the breaker for this sidecar only, for `milliseconds`. A local trip that lasts longer stays in effect.
    /// - Returns: whether no local trip was in effect before.
    @discardableResult
    package mutating func tripLocally(
        _ cause: BreakerCause, forMilliseconds milliseconds: Int64, now: Instant
    ) -> Bool {
        let former = localTrip(now: now)
        let until = now.advanced(byMilliseconds: milliseconds)
        if let former, former.until > until { return false }
        localTrip = LocalTrip(cause: cause, until: until)
        localTrialUntil = nil
        localSuccesses = 0
        return former == nil
    }

    /// Ends the local trip if it has this cause.
    package mutating func recoverLocally(from cause: BreakerCause) {
        if localTrip?.cause == cause { localTrip = nil }
    }

    /// Opens the breaker for this sidecar only. The open time doubles with each trip in a row.
    private mutating func trip(_ cause: BreakerCause, now: Instant) {
        let openFor = settings.openFor
        let doubledMilliseconds = openFor.lowerBound.wholeMilliseconds << Int64(min(localStreak, 20))
        localStreak += 1
        tripLocally(
            cause, forMilliseconds: min(openFor.upperBound.wholeMilliseconds, doubledMilliseconds), now: now)
    }

    private func mayTrip(now: Instant) -> Bool {
        forced(now: now) == nil && !settings.isMetricsOnly && localTrip(now: now) == nil
    }

    /// The fleet's sums at the last report, computed from the snapshot's rates.
    private var fleetSums: OutcomeSums {
        func count(_ fraction: Double) -> Int64 {
            // The hash in Redis may contain any number, because other software can write to it.
            Int64(exactly: (Double(snapshot.calls) * fraction).rounded()) ?? 0
        }
        return OutcomeSums(
            calls: snapshot.calls, failures: count(snapshot.failureRate), slow: count(snapshot.slowRate),
            trailingFailures: snapshot.consecutive)
    }
}

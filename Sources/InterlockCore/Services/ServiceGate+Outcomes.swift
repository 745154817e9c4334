/// Applies the outcomes of calls and the answers of limits to the breaker.
extension ServiceGate {
    /// The maximum time for which a reached limit opens the breaker, in milliseconds. It is capped because the
    /// configuration may change before a longer window ends.
    package static let maximumLimitPause: Int64 = 3_600_000

    /// The executor's next step after a reported outcome.
    package enum ReportStep: Equatable, Sendable {
        /// Carry out the action. The outcome has been counted.
        case counted(Breaker.ReportAction)
        /// Report the outcome of a trial to Redis; `pause` is the upstream's `Retry-After`, in milliseconds.
        case trial(Outcome, pause: Int64?)
        /// Open the breaker for the upstream's `Retry-After`, in milliseconds; `breakerChangeEnded` must follow.
        case trip(pause: Int64)
    }

    /// Evaluates the outcome of a permitted call. Counts it, unless it belongs to a trial or opens the breaker.
    package mutating func reported(
        _ report: OutcomeReport, of permit: PermitTable.Permit, now: Instant
    ) -> ReportStep {
        let settings = definition.breaker
        let isSlow = settings.isSlow(latencyMilliseconds: report.latencyMilliseconds)
        let outcome: Outcome =
            if report.isUnfinished, isSlow {
                permit.isTrial || permit.isLocalTrial ? .error : .ok
            } else {
                settings.effectiveOutcome(report.outcome, status: report.status)
            }
        if outcome == .error, settings.honoursRetryAfter, let retryAfter = report.retryAfterMilliseconds {
            let until = now.advanced(byMilliseconds: min(retryAfter, settings.maximumPause))
            upstreamRetryAt = max(upstreamRetryAt ?? until, until)
        }
        var pause = settings.pause(
            askedFor: report.retryAfterMilliseconds, outcome: report.outcome, status: report.status)
        if let subject = permit.subject, report.status == 429, let asked = pause {
            // Pauses only this subject, unless `subjectPauses` is full. The breaker stays as it is for all other calls.
            subjectPauses.pause(subject, until: now.advanced(byMilliseconds: asked), now: now)
            pause = nil
        }
        if permit.isTrial {
            // If slow calls opened the breaker, a slow trial counts as a failure.
            let isStillSlow = breaker.snapshot.cause == BreakerCause.slow.rawValue && outcome == .ok && isSlow
            return .trial(settings.isMetricsOnly ? .ignore : isStillSlow ? .error : outcome, pause: pause)
        }
        if let pause, mayTripForPause(generation: permit.generation, now: now) {
            isBreakerChangePending = true
            return .trip(pause: pause)
        }
        return .counted(
            breaker.record(
                outcome, latencyMilliseconds: report.latencyMilliseconds, generation: permit.generation,
                isLocalTrial: permit.isLocalTrial, now: now))
    }

    private func mayTripForPause(generation: Int64, now: Instant) -> Bool {
        let snapshot = breaker.snapshot
        return generation == snapshot.generation && snapshot.state != .open && snapshot.forced == nil && !isBreakerChangePending
            && breaker.localTrip(now: now) == nil
    }

    /// Returns the remaining part of the wait that the upstream asked for, in milliseconds; `nil` if there is none.
    package func upstreamRetry(now: Instant) -> Int64? {
        guard let upstreamRetryAt, upstreamRetryAt > now else { return nil }
        return upstreamRetryAt.millisecondsRoundedUp(since: now)
    }

    /// Call when a limit of the whole service refused a call and has capacity again after `retryAfter` milliseconds.
    /// - Returns: the range of open times if the breaker is to open; `nil` otherwise. After a range,
    ///   `breakerChangeEnded` must follow.
    package mutating func beginLimitTrip(retryAfter: Int64) -> ClosedRange<Duration>? {
        guard definition.onLimit.action == .trip, !definition.breaker.isMetricsOnly, !isBreakerChangePending else { return nil }
        let snapshot = breaker.snapshot
        // Only trials close a breaker that another cause opened. After a limit, calls resume without trials.
        guard snapshot.forced == nil,
            snapshot.state == .closed || (snapshot.state == .halfOpen && breaker.isOpenByLimit)
        else { return nil }
        isBreakerChangePending = true
        let minimum = Duration.milliseconds(min(retryAfter, Self.maximumLimitPause))
        return max(definition.onLimit.pause.lowerBound, minimum)...max(definition.onLimit.pause.upperBound, minimum)
    }

    /// Call when the limits of the whole service have capacity.
    /// - Returns: whether to close the breaker, which only a limit opened. If so, `breakerChangeEnded` must follow.
    package mutating func beginClosingAfterLimit(now: Instant) -> Bool {
        guard breaker.isOpenByLimit, !isBreakerChangePending, breaker.actingState(now: now) == .halfOpen else { return false }
        isBreakerChangePending = true
        return true
    }

    /// Call when the request to Redis that `trip`, `beginLimitTrip` or `beginClosingAfterLimit` caused has ended.
    package mutating func breakerChangeEnded() { isBreakerChangePending = false }
}

/// The effects of calls' outcomes and of the limits' decisions on the breaker.
extension ServiceGate {
    /// The maximum time for which a reached limit opens the breaker. The configuration may change before the end of a
    /// longer window.
    private static let maximumLimitPauseMilliseconds: Int64 = 3_600_000

    /// The executor's next step after the report of an outcome.
    package enum ReportStep: Equatable, Sendable {
        /// Carry out the action. The outcome is already counted.
        case counted(Breaker.ReportAction)
        /// Report the outcome of a trial to Redis; `pauseMilliseconds` is the upstream's `Retry-After`.
        case trial(Outcome, pauseMilliseconds: Int64?)
        /// Open the breaker for the upstream's `Retry-After`, in milliseconds; `breakerChangeEnded` must follow.
        case trip(pauseMilliseconds: Int64)
    }

    /// Evaluates the outcome of a permitted call. Counts the outcome, unless it is that of a trial or opens the
    /// breaker.
    package mutating func outcomeReported(
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
        if outcome == .error, settings.honorsRetryAfter, let retryAfterMilliseconds = report.retryAfterMilliseconds {
            let retryAt = now.advanced(byMilliseconds: min(retryAfterMilliseconds, settings.maximumPauseMilliseconds))
            upstreamRetryAt = max(upstreamRetryAt ?? retryAt, retryAt)
        }
        var pauseMilliseconds = settings.pauseMilliseconds(
            askedFor: report.retryAfterMilliseconds, outcome: report.outcome, status: report.status)
        if let subject = permit.subject, report.status == 429, let milliseconds = pauseMilliseconds {
            // Pause only this subject, unless `subjectPauses` is full. The breaker does not change for other calls.
            subjectPauses.pause(subject, until: now.advanced(byMilliseconds: milliseconds), now: now)
            pauseMilliseconds = nil
        }
        // A trial of an earlier state decides nothing, although Redis would accept it after a failover that lost the
        // current state.
        if permit.isTrial, permit.generation >= breaker.snapshot.generation {
            // If slow calls opened the breaker, a slow trial counts as a failure.
            let isStillSlow = breaker.snapshot.cause == BreakerCause.slow.rawValue && outcome == .ok && isSlow
            return .trial(
                settings.isMetricsOnly ? .ignore : isStillSlow ? .error : outcome, pauseMilliseconds: pauseMilliseconds)
        }
        if let pauseMilliseconds, mayTripForPause(generation: permit.generation, now: now) {
            isBreakerChangePending = true
            return .trip(pauseMilliseconds: pauseMilliseconds)
        }
        return .counted(
            breaker.record(
                outcome, latencyMilliseconds: report.latencyMilliseconds, generation: permit.generation,
                isLocalTrial: permit.isLocalTrial, now: now))
    }

    private func mayTripForPause(generation: Int64, now: Instant) -> Bool {
        let snapshot = breaker.snapshot
        return generation == snapshot.generation && snapshot.state != .open && snapshot.forced == nil
            && !isBreakerChangePending
            && breaker.localTrip(now: now) == nil
    }

    /// Returns the milliseconds for which the upstream still asks callers to wait; `nil` if it asks for no wait.
    package func upstreamRetryMilliseconds(now: Instant) -> Int64? {
        guard let upstreamRetryAt, upstreamRetryAt > now else { return nil }
        return upstreamRetryAt.millisecondsRoundedUp(since: now)
    }

    /// Decides whether to open the breaker after a limit of the whole service has refused a call.
    /// - Parameter retryAfterMilliseconds: the time until the limit has capacity again.
    /// - Returns: the range of open times if the breaker is to open; `nil` otherwise. After a range,
    ///   `breakerChangeEnded` must follow.
    package mutating func beginLimitTrip(retryAfterMilliseconds: Int64) -> ClosedRange<Duration>? {
        guard definition.onLimit.action == .trip, !definition.breaker.isMetricsOnly, !isBreakerChangePending else {
            return nil
        }
        let snapshot = breaker.snapshot
        // A breaker that another cause opened closes only after trials, but after a limit calls resume without trials.
        guard snapshot.forced == nil,
            snapshot.state == .closed || (snapshot.state == .halfOpen && breaker.isOpenByLimit)
        else { return nil }
        isBreakerChangePending = true
        let minimum = Duration.milliseconds(min(retryAfterMilliseconds, Self.maximumLimitPauseMilliseconds))
        return max(definition.onLimit.pause.lowerBound, minimum)...max(definition.onLimit.pause.upperBound, minimum)
    }

    /// Decides whether to close the breaker when the limits of the whole service have capacity again.
    /// - Returns: whether to close the breaker, because only a limit keeps it half-open. If so, `breakerChangeEnded`
    ///   must follow.
    package mutating func beginClosingAfterLimit(now: Instant) -> Bool {
        guard breaker.isOpenByLimit, !isBreakerChangePending, breaker.actingState(now: now) == .halfOpen else {
            return false
        }
        isBreakerChangePending = true
        return true
    }

    /// Records the end of the request to Redis that `trip`, `beginLimitTrip` or `beginClosingAfterLimit` caused.
    package mutating func breakerChangeEnded() { isBreakerChangePending = false }
}

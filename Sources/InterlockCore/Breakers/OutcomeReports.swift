/// Decides when this sidecar reports outcomes to Redis: at most ten times a second on average, and immediately when the
/// outcomes would trip the breaker.
struct OutcomeReports: Sendable {
    static let intervalMilliseconds: Int64 = 100

    private(set) var unsent = OutcomeSums()
    /// Whether a `sendAt` is pending.
    private var isScheduled = false
    private var inFlight: OutcomeSums?
    /// The earliest time of the next regular report. Every report moves this time by the interval, so an urgent report
    /// delays the next one.
    private var mayReportFrom = Instant(nanoseconds: .min)

    /// The sums that Redis has not counted yet: those in flight and the unsent ones.
    var unanswered: OutcomeSums { inFlight?.followed(by: unsent) ?? unsent }

    mutating func add(isFailure: Bool, isSlow: Bool) {
        unsent.add(isFailure: isFailure, isSlow: isSlow)
    }

    /// Decides when to send the unsent sums. They wait while a report is in flight; its end calls this method again.
    mutating func scheduleReport(isUrgent: Bool, now: Instant) -> Breaker.ReportAction {
        guard !unsent.isEmpty else { return .none }
        guard inFlight == nil else { return isUrgent ? .sendNext : .none }
        // Only one report may be early, so that later failures are not sent one by one if Redis does not trip.
        if isUrgent, mayReportFrom <= now.advanced(byMilliseconds: Self.intervalMilliseconds) { return .sendNow }
        guard !isScheduled else { return .none }
        isScheduled = true
        return .sendAt(max(now, mayReportFrom))
    }

    /// Decides what to do at the time that `sendAt` named.
    mutating func scheduledReportDue(now: Instant) -> Breaker.ReportAction {
        isScheduled = false
        guard !unsent.isEmpty, inFlight == nil else { return .none }
        guard mayReportFrom > now else { return .sendNow }
        isScheduled = true
        return .sendAt(mayReportFrom)
    }

    /// Removes and returns the sums to send; `nil` if there is nothing to send or a report is in flight.
    /// - Parameter inWindow: the sums that are still in the window. A delayed report sends at most these.
    mutating func take(now: Instant, inWindow: OutcomeSums) -> OutcomeSums? {
        guard !unsent.isEmpty, inFlight == nil else { return nil }
        var sums = unsent
        if inWindow.calls < unsent.calls {
            sums = inWindow
            // The window's failures in a row may include failures that an earlier report contained.
            sums.trailingFailures = unsent.trailingFailures
        }
        unsent = OutcomeSums()
        guard !sums.isEmpty else { return nil }
        inFlight = sums
        mayReportFrom = max(mayReportFrom, now).advanced(byMilliseconds: Self.intervalMilliseconds)
        return sums
    }

    /// Records that the report in flight was answered or failed.
    mutating func finishReport() {
        inFlight = nil
    }

    /// Puts back sums that are known not to have arrived.
    mutating func putBack(_ sums: OutcomeSums) {
        unsent = sums.followed(by: unsent)
    }

    /// Discards the sums of the former generation, and allows the next urgent report immediately.
    mutating func generationEnded() {
        unsent = OutcomeSums()
        mayReportFrom = Instant(nanoseconds: .min)
    }
}

/// Decides when this sidecar reports its outcomes to Redis: at most ten times a second on average, and immediately when
/// they would trip the breaker.
struct OutcomeReports: Sendable {
    static let intervalMilliseconds: Int64 = 100

    private(set) var unsent = OutcomeSums()
    private var isPlanned = false
    private var inFlight: OutcomeSums?
    /// The earliest time of the next regular report. Every report moves it by the interval, so an early one delays the
    /// next.
    private var mayReportFrom = Instant(nanoseconds: .min)

    /// The sums that Redis has not counted yet: those in flight and the unsent ones.
    var unanswered: OutcomeSums { inFlight?.followed(by: unsent) ?? unsent }

    mutating func add(isFailure: Bool, isSlow: Bool) {
        unsent.add(isFailure: isFailure, isSlow: isSlow)
    }

    /// Decides when to send the unsent sums. While a report is in flight they wait, and its end calls this method
    /// again.
    mutating func plan(isUrgent: Bool, now: Instant) -> Breaker.ReportAction {
        guard !unsent.isEmpty else { return .none }
        guard inFlight == nil else { return isUrgent ? .sendNext : .none }
        // At most one report is early, so that later failures are not sent one by one if Redis does not trip.
        if isUrgent, mayReportFrom <= now.advanced(byMilliseconds: Self.intervalMilliseconds) { return .sendNow }
        guard !isPlanned else { return .none }
        isPlanned = true
        return .sendAt(max(now, mayReportFrom))
    }

    /// Decides what to do at the time that `sendAt` named.
    mutating func handlePlannedReport(now: Instant) -> Breaker.ReportAction {
        isPlanned = false
        guard !unsent.isEmpty, inFlight == nil else { return .none }
        guard mayReportFrom > now else { return .sendNow }
        isPlanned = true
        return .sendAt(mayReportFrom)
    }

    /// Removes and returns the sums to send; `nil` if there are none or a report is in flight.
    /// - Parameter inWindow: the sums still in the window. A delayed report sends no more than these.
    mutating func take(now: Instant, inWindow: OutcomeSums) -> OutcomeSums? {
        guard !unsent.isEmpty, inFlight == nil else { return nil }
        var sums = unsent
        if inWindow.calls < unsent.calls {
            sums = inWindow
            // The window's failures in a row may have been reported already.
            sums.trailingFailures = unsent.trailingFailures
        }
        unsent = OutcomeSums()
        guard !sums.isEmpty else { return nil }
        inFlight = sums
        mayReportFrom = max(mayReportFrom, now).advanced(byMilliseconds: Self.intervalMilliseconds)
        return sums
    }

    /// Call when the report in flight was answered or failed.
    mutating func ended() {
        inFlight = nil
    }

    /// Puts back sums that are known not to have arrived.
    mutating func putBack(_ sums: OutcomeSums) {
        unsent = sums.followed(by: unsent)
    }

    /// Discards the sums of a generation that has ended, and lets the next urgent report be sent immediately.
    mutating func generationEnded() {
        unsent = OutcomeSums()
        mayReportFrom = Instant(nanoseconds: .min)
    }
}

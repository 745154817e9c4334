/// When the outcomes that this sidecar has counted leave for Redis: at most ten times a second on the average, and at
/// once when they would trip the breaker.
struct OutcomeReports: Sendable {
    static let intervalMilliseconds: Int64 = 100

    private(set) var unsent = OutcomeSums()
    private var isPlanned = false
    private var underWay: OutcomeSums?
    /// Rises by the interval with every report: one that is sent ahead of its time puts the next one off.
    private var mayReportFrom = Instant(nanoseconds: .min)

    /// What Redis has not answered yet.
    var unanswered: OutcomeSums { underWay?.followed(by: unsent) ?? unsent }

    mutating func add(isFailure: Bool, isSlow: Bool) {
        unsent.add(isFailure: isFailure, isSlow: isSlow)
    }

    /// What is to be done with what is unsent. While a report is under way: nothing; its end asks again.
    mutating func plan(isUrgent: Bool, now: Instant) -> Breaker.ReportAction {
        guard !unsent.isEmpty else { return .none }
        guard underWay == nil else { return isUrgent ? .sendNext : .none }
        // Only one ahead of its time: should Redis see it differently, failures do not leave one by one.
        if isUrgent, mayReportFrom <= now.advanced(byMilliseconds: Self.intervalMilliseconds) { return .sendNow }
        guard !isPlanned else { return .none }
        isPlanned = true
        return .sendAt(max(now, mayReportFrom))
    }

    /// The time that was planned has come.
    mutating func planIsDue(now: Instant) -> Breaker.ReportAction {
        isPlanned = false
        guard !unsent.isEmpty, underWay == nil else { return .none }
        guard mayReportFrom > now else { return .sendNow }
        isPlanned = true
        return .sendAt(mayReportFrom)
    }

    /// The sums to send, if there are any and none are under way.
    /// - Parameter inWindow: of a report that was held up, no more is sent than the window still holds.
    mutating func take(now: Instant, inWindow: OutcomeSums) -> OutcomeSums? {
        guard !unsent.isEmpty, underWay == nil else { return nil }
        var sums = unsent
        if inWindow.calls < unsent.calls {
            sums = inWindow
            // The window's failures in a row may have been reported already.
            sums.trailingFailures = unsent.trailingFailures
        }
        unsent = OutcomeSums()
        guard !sums.isEmpty else { return nil }
        underWay = sums
        mayReportFrom = max(mayReportFrom, now).advanced(byMilliseconds: Self.intervalMilliseconds)
        return sums
    }

    /// The report that was under way was answered, or failed.
    mutating func ended() {
        underWay = nil
    }

    /// Sums that were taken and certainly never arrived.
    mutating func putBack(_ sums: OutcomeSums) {
        unsent = sums.followed(by: unsent)
    }

    /// The generation is over that the sums are of: the next trip is as urgent as this one was.
    mutating func generationEnded() {
        unsent = OutcomeSums()
        mayReportFrom = Instant(nanoseconds: .min)
    }
}

/// What became of a call that a permit was given for.
public enum Outcome: String, CaseIterable, Hashable, Sendable {
    /// The call succeeded.
    case ok
    /// The call failed.
    case error
    /// Says nothing of the service: the call was given up by its caller, for instance.
    case ignore
}

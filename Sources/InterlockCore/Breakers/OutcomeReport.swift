/// The outcome of a call, as its caller reports it.
public struct OutcomeReport: Sendable {
    /// The outcome: success, failure, or neither.
    public var outcome: Outcome
    /// The duration of the call; `nil` if unknown.
    public var latency: Duration?
    /// The HTTP status of the response; `nil` if unknown. The breaker's settings define which statuses are failures.
    public var status: Int?
    /// The time for which the service asked callers to wait, as in `Retry-After`; `nil` if it did not ask.
    public var retryAfter: Duration?
    /// Whether the caller abandoned the call. An abandoned call counts as slow if it ran long enough, and is ignored
    /// otherwise.
    package var isUnfinished = false

    /// Creates a report. Omitted arguments are unknown.
    public init(outcome: Outcome, latency: Duration? = nil, status: Int? = nil, retryAfter: Duration? = nil) {
        self.outcome = outcome
        self.latency = latency
        self.status = status
        self.retryAfter = retryAfter
    }

    /// Creates the default report of a call's result: a value is a success and an error is a failure. A call that threw
    /// a `CancellationError`, or failed in a cancelled task, is ignored.
    public init<Value>(of result: Result<Value, any Error>) {
        switch result {
        case .success: self.init(outcome: .ok)
        case .failure(let error): self.init(outcome: error is CancellationError || Task.isCancelled ? .ignore : .error)
        }
    }

    package init(
        outcome: Outcome, latencyMilliseconds: Int64?, status: Int? = nil, retryAfterMilliseconds: Int64? = nil
    ) {
        self.init(
            outcome: outcome, latency: latencyMilliseconds.map { .milliseconds($0) }, status: status,
            retryAfter: retryAfterMilliseconds.map { .milliseconds($0) })
    }

    package init(outcome: Outcome, status: Int, retryAfterMilliseconds: Int64) {
        self.init(outcome: outcome, status: status, retryAfter: .milliseconds(retryAfterMilliseconds))
    }

    /// Returns the report of an abandoned call.
    package static func unfinished(afterMilliseconds milliseconds: Int64?) -> OutcomeReport {
        var report = OutcomeReport(outcome: .ignore, latencyMilliseconds: milliseconds)
        report.isUnfinished = true
        return report
    }

    package var latencyMilliseconds: Int64? { latency?.wholeMilliseconds }
    package var retryAfterMilliseconds: Int64? { retryAfter?.wholeMilliseconds }
}

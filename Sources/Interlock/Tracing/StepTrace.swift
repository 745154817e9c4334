package import InterlockCore

/// Traces one step of the coordinator: the span of the step, the wait within it and the request to Redis. The sidecar
/// and the library use the same code, so that their spans look the same. Use it from one thread at a time.
package final class StepTrace {
    /// The kind of step.
    package enum Step: String {
        case acquire, take, permit
    }

    /// The minimum wait that is traced. During a shorter wait, the event loop was merely busy.
    private static let minimumWaitNanoseconds: Int64 = 1_000_000

    private let span: any StepSpan
    private let resourceName: String
    private let requestedAt: Instant
    private let mayWait: Bool
    private let lastLimitRequest: () -> Instant?
    /// The error text of a failed step; `nil` if it succeeded or is not answered yet.
    package private(set) var failure: String?

    /// Creates the trace of a step that has just begun.
    /// - Parameters:
    ///   - resourceName: the name of the lock or the service.
    ///   - waitMilliseconds: the maximum wait of the caller, in milliseconds.
    ///   - span: the span of this step.
    ///   - requestedAt: the start of the step, by the coordinator's clock.
    ///   - lastLimitRequest: called when the answer arrives; returns the time of the last request for a decision on
    ///     limits.
    package init(
        _ step: Step, _ resourceName: String, waitMilliseconds: Int64, span: any StepSpan, requestedAt: Instant,
        lastLimitRequest: @escaping () -> Instant?
    ) {
        mayWait = waitMilliseconds > 0
        self.span = span
        self.resourceName = resourceName
        self.requestedAt = requestedAt
        self.lastLimitRequest = lastLimitRequest
        span.set(step == .acquire ? "interlock.lock" : "interlock.service", resourceName)
    }

    /// Ends the span of a step whose caller no longer wants the answer.
    package func abandon() { span.abandon() }

    /// The reason that a span reports if its caller gave up.
    package static let givenUpReason = "given up"

    /// Records the outcome of an acquire, with its fence, and ends the span.
    package func stepAnswered(_ result: LockResult) {
        switch result {
        case .granted(let lease):
            recordDecision("granted", waitedUntil: lease.requestedAt)
            span.set("interlock.fence", lease.fence)
        case .held: recordDecision("held", waitedUntil: nil)
        case .failed(let error): recordFailure(error)
        }
        span.end(atNanoseconds: nil)
    }

    /// Records the outcome of an acquire of several locks, with their number, and ends the span.
    package func stepAnswered(_ result: JointLockResult) {
        switch result {
        case .granted(let leases):
            // The locks are acquired one after another, so the wait lasts until the last one was requested.
            recordDecision("granted", waitedUntil: leases.map(\.requestedAt).max())
            span.set("interlock.locks", Int64(leases.count))
        case .held: recordDecision("held", waitedUntil: nil)
        case .failed(let error): recordFailure(error)
        }
        span.end(atNanoseconds: nil)
    }

    /// Records the outcome of a take, with the limit that decided it, and ends the span.
    package func stepAnswered(_ result: TakeResult) {
        switch result {
        case .decided(let decision), .decidedBatch(let decision, _, _):
            recordDecision(decision.isAllowed ? "taken" : "limited", waitedUntil: limitsRequestedAt)
            if let name = decision.limitName { span.set("interlock.limit", name) }
        case .failed(let error): recordFailure(error)
        }
        span.end(atNanoseconds: nil)
    }

    /// Records the outcome of a permit, with the breaker's state and a child span of the take, and ends the span.
    package func stepAnswered(_ result: PermitResult) {
        let sentAt = limitsRequestedAt
        switch result {
        case .granted(_, let state):
            recordDecision("granted", waitedUntil: sentAt)
            span.set("interlock.breaker.state", state.rawValue)
        case .refused(let reason, let state, _):
            recordDecision(reason.rawValue, waitedUntil: sentAt)
            span.set("interlock.breaker.state", state.rawValue)
        case .failed(let error): recordFailure(error)
        }
        if let sentAt {
            let take = span.childSpan(Step.take.rawValue, fromNanoseconds: unixNanoseconds(of: sentAt))
            take.set("interlock.service", resourceName)
            take.end(atNanoseconds: nil)
        }
        span.end(atNanoseconds: nil)
    }

    /// The time of the last request for a decision on limits; `nil` if it was before this step and so belongs to
    /// another.
    private var limitsRequestedAt: Instant? { lastLimitRequest().flatMap { $0 >= requestedAt ? $0 : nil } }

    private func recordDecision(_ decision: String, waitedUntil sentAt: Instant?) {
        span.set("interlock.decision", decision)
        guard mayWait else { return }
        let waitEndNanoseconds = sentAt.map(unixNanoseconds) ?? span.nowNanoseconds
        guard waitEndNanoseconds - span.startedAtNanoseconds >= Self.minimumWaitNanoseconds else { return }
        // A step that was answered without a request waited for its whole duration.
        span.childSpan("wait", fromNanoseconds: span.startedAtNanoseconds).end(atNanoseconds: waitEndNanoseconds)
    }

    private func recordFailure(_ error: InterlockError) {
        failure = error.message
        span.set("interlock.decision", "failed")
        span.fail(error.message)
    }

    /// Converts an instant to Unix time in nanoseconds.
    private func unixNanoseconds(of instant: Instant) -> Int64 {
        span.startedAtNanoseconds + max(0, instant.nanoseconds - requestedAt.nanoseconds)
    }
}

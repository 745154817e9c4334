package import InterlockCore

/// Traces one step of the coordinator: its span, the wait within it and the request to Redis. The sidecar and the
/// library share it, so that their spans look the same. Used by one thread at a time.
package final class StepTrace {
    /// The kind of step.
    package enum Step: String {
        case acquire, take, permit
    }

    /// The minimum wait that is traced, in nanoseconds. Below it, the event loop was merely busy.
    private static let minimumWait: Int64 = 1_000_000

    private let span: any StepSpan
    private let subject: String
    private let requestedAt: Instant
    private let mayWait: Bool
    private let limitsLastRequestedAt: () -> Instant?
    /// The error text of a failed step; `nil` if it succeeded or is not answered yet.
    package private(set) var failure: String?

    /// - Parameters:
    ///   - subject: the name of the lock or the service.
    ///   - wait: the maximum wait that the caller permits, in milliseconds.
    ///   - span: the span of this step, which has just begun.
    ///   - requestedAt: its start, by the coordinator's clock.
    ///   - limitsRequestedAt: returns, when the answer arrives, the time when Redis was last asked for a decision
    ///     on limits.
    package init(
        _ step: Step, _ subject: String, wait: Int64, span: any StepSpan, requestedAt: Instant,
        limitsRequestedAt: @escaping () -> Instant?
    ) {
        mayWait = wait > 0
        self.span = span
        self.subject = subject
        self.requestedAt = requestedAt
        limitsLastRequestedAt = limitsRequestedAt
        span.set(step == .acquire ? "interlock.lock" : "interlock.service", subject)
    }

    /// Ends the span of a step whose caller no longer wants the answer.
    package func abandon() { span.abandon() }

    /// The text with which a span reports that its caller gave up.
    package static let givenUpReason = "given up"

    package func answered(_ answer: LockResult) {
        switch answer {
        case .granted(let lease):
            decided("granted", waitedUntil: lease.requestedAt)
            span.set("interlock.fence", lease.fence)
        case .held: decided("held", waitedUntil: nil)
        case .failed(let error): failed(error)
        }
        span.end(at: nil)
    }

    package func answered(_ answer: JointLockResult) {
        switch answer {
        case .granted(let leases):
            // Locks are acquired one after another, so the wait counts until the last one was requested.
            decided("granted", waitedUntil: leases.map(\.requestedAt).max())
            span.set("interlock.locks", Int64(leases.count))
        case .held: decided("held", waitedUntil: nil)
        case .failed(let error): failed(error)
        }
        span.end(at: nil)
    }

    package func answered(_ answer: TakeResult) {
        switch answer {
        case .decided(let answer), .decidedBatch(let answer, _, _):
            decided(answer.isAllowed ? "taken" : "limited", waitedUntil: limitsRequestedAt)
            if let name = answer.limitName { span.set("interlock.limit", name) }
        case .failed(let error): failed(error)
        }
        span.end(at: nil)
    }

    package func answered(_ answer: PermitResult) {
        let sentAt = limitsRequestedAt
        switch answer {
        case .granted(_, let state):
            decided("granted", waitedUntil: sentAt)
            span.set("interlock.breaker.state", state.rawValue)
        case .refused(let reason, let state, _):
            decided(reason.rawValue, waitedUntil: sentAt)
            span.set("interlock.breaker.state", state.rawValue)
        case .failed(let error): failed(error)
        }
        if let sentAt {
            let take = span.childSpan(Step.take.rawValue, from: time(of: sentAt))
            take.set("interlock.service", subject)
            take.end(at: nil)
        }
        span.end(at: nil)
    }

    /// The time of the request to Redis for the current answer; `nil` for a time before this step, which belongs to
    /// another step.
    private var limitsRequestedAt: Instant? { limitsLastRequestedAt().flatMap { $0 >= requestedAt ? $0 : nil } }

    private func decided(_ decision: String, waitedUntil sentAt: Instant?) {
        span.set("interlock.decision", decision)
        guard mayWait else { return }
        let end = sentAt.map(time) ?? span.now
        guard end - span.startedAt >= Self.minimumWait else { return }
        // A step that was answered without a request has waited for its whole duration.
        span.childSpan("wait", from: span.startedAt).end(at: end)
    }

    private func failed(_ error: InterlockError) {
        failure = error.message
        span.set("interlock.decision", "failed")
        span.fail(error.message)
    }

    /// Converts an instant to Unix time in nanoseconds.
    private func time(of instant: Instant) -> Int64 {
        span.startedAt + max(0, instant.nanoseconds - requestedAt.nanoseconds)
    }
}

package import InterlockCore

/// The span of one step that the coordinator is asked for, with the wait in it and what Redis was asked: one wording for the sidecar's
/// spans and the library's. Used by one thread at a time.
package final class StepTrace {
    /// What is asked for.
    package enum Step: String {
        case acquire, take, permit
    }

    /// Shorter is no wait: the loop had something else to do. In nanoseconds.
    private static let shortestWait: Int64 = 1_000_000

    private let span: any StepSpan
    private let subject: String
    private let askedAt: Instant
    private let mayWait: Bool
    private let limitsLastAskedAt: () -> Instant?
    /// Why there is no answer; `nil`: there is, or it is awaited.
    package private(set) var failure: String?

    /// - Parameters:
    ///   - subject: the name of the lock or the service.
    ///   - wait: how long its caller lets it wait, in milliseconds.
    ///   - span: of this step; it has just begun.
    ///   - askedAt: when that was, by the coordinator's clock.
    ///   - limitsAskedAt: when Redis had last been asked for a decision of limits as the answer came.
    package init(
        _ step: Step, _ subject: String, wait: Int64, span: any StepSpan, askedAt: Instant,
        limitsAskedAt: @escaping () -> Instant?
    ) {
        mayWait = wait > 0
        self.span = span
        self.subject = subject
        self.askedAt = askedAt
        limitsLastAskedAt = limitsAskedAt
        span.set(step == .acquire ? "interlock.lock" : "interlock.service", subject)
    }

    /// It came to nothing: nobody wants the answer any more.
    package func givenUp() { span.givenUp() }

    /// How a span says that nobody wanted to know any more what it came to.
    package static let givenUpReason = "given up"

    package func answered(_ answer: LockAnswer) {
        switch answer {
        case .granted(let lease):
            decided("granted", waitedUntil: lease.askedAt)
            span.set("interlock.fence", lease.fence)
        case .held: decided("held", waitedUntil: nil)
        case .failed(let error): failed(error)
        }
        span.end(at: nil)
    }

    package func answered(_ answer: JointLockAnswer) {
        switch answer {
        case .granted(let leases):
            // Until the last of them was asked for, so to speak: they are taken one after another.
            decided("granted", waitedUntil: leases.map(\.askedAt).max())
            span.set("interlock.locks", Int64(leases.count))
        case .held: decided("held", waitedUntil: nil)
        case .failed(let error): failed(error)
        }
        span.end(at: nil)
    }

    package func answered(_ answer: TakeAnswer) {
        switch answer {
        case .decided(let answer), .decidedAlike(let answer, _, _):
            decided(answer.isTaken ? "taken" : "limited", waitedUntil: limitsAskedAt)
            if let name = answer.limitName { span.set("interlock.limit", name) }
        case .failed(let error): failed(error)
        }
        span.end(at: nil)
    }

    package func answered(_ answer: PermitAnswer) {
        let sentAt = limitsAskedAt
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
            let take = span.part(Step.take.rawValue, from: time(of: sentAt))
            take.set("interlock.service", subject)
            take.end(at: nil)
        }
        span.end(at: nil)
    }

    /// When Redis was asked for what is answered now. What was asked before this step began is another's.
    private var limitsAskedAt: Instant? { limitsLastAskedAt().flatMap { $0 >= askedAt ? $0 : nil } }

    private func decided(_ decision: String, waitedUntil sentAt: Instant?) {
        span.set("interlock.decision", decision)
        guard mayWait else { return }
        let end = sentAt.map(time) ?? span.now
        guard end - span.startedAt >= Self.shortestWait else { return }
        // What was answered without asking has waited all the time.
        span.part("wait", from: span.startedAt).end(at: end)
    }

    private func failed(_ error: InterlockError) {
        failure = error.message
        span.set("interlock.decision", "failed")
        span.fail(error.message)
    }

    /// In nanoseconds since 1970.
    private func time(of instant: Instant) -> Int64 {
        span.startedAt + max(0, instant.nanoseconds - askedAt.nanoseconds)
    }
}

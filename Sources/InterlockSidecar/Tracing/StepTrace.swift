internal import Interlock
internal import InterlockCore

/// The span of one step that the coordinator is asked for, with the wait in it and what Redis was asked. Confined to the coordinator's
/// event loop.
final class StepTrace {
    /// What is asked for.
    enum Step: String {
        case acquire, take, permit
    }

    /// Shorter is no wait: the loop had something else to do. In nanoseconds.
    private static let shortestWait: Int64 = 1_000_000

    private let span: Span
    private let calls: CoordinatorCalls
    private let askedAt: Instant
    private let mayWait: Bool
    /// Why there is no answer; `nil`: there is, or it is awaited.
    private(set) var failure: String?

    /// - Parameters:
    ///   - subject: the name of the lock or the service.
    ///   - wait: how long its caller lets it wait, in milliseconds.
    init(_ step: Step, _ subject: String, wait: Int64, of parent: Span, calls: CoordinatorCalls) {
        mayWait = wait > 0
        self.calls = calls
        span = parent.child(step.rawValue)
        span.set(step == .acquire ? "interlock.lock" : "interlock.service", subject)
        askedAt = calls.now()
    }

    /// It came to nothing: nobody wants the answer any more.
    func givenUp() { span.givenUp() }

    func answered(_ answer: LockAnswer) {
        switch answer {
        case .granted(let lease):
            decided("granted", waitedUntil: lease.askedAt)
            span.set("interlock.fence", lease.fence)
        case .held: decided("held", waitedUntil: nil)
        case .failed(let error): failed(error)
        }
        span.end()
    }

    func answered(_ answer: JointLockAnswer) {
        switch answer {
        case .granted(let leases):
            // Until the last of them was asked for, so to speak: they are taken one after another.
            decided("granted", waitedUntil: leases.map(\.askedAt).max())
            span.set("interlock.locks", Int64(leases.count))
        case .held: decided("held", waitedUntil: nil)
        case .failed(let error): failed(error)
        }
        span.end()
    }

    func answered(_ answer: TakeAnswer) {
        switch answer {
        case .decided(let answer), .decidedAlike(let answer, _, _):
            decided(answer.isTaken ? "taken" : "limited", waitedUntil: limitsAskedAt)
            if let name = answer.limitName { span.set("interlock.limit", name) }
        case .failed(let error): failed(error)
        }
        span.end()
    }

    func answered(_ answer: PermitAnswer) {
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
        if let sentAt { span.child(Step.take.rawValue, at: time(of: sentAt)).end() }
        span.end()
    }

    /// When Redis was asked for what is answered now. What was asked before this step began is another's.
    private var limitsAskedAt: Instant? { calls.limitsAskedAt.flatMap { $0 >= askedAt ? $0 : nil } }

    private func decided(_ decision: String, waitedUntil sentAt: Instant?) {
        span.set("interlock.decision", decision)
        guard mayWait else { return }
        let end = sentAt.map(time) ?? span.now
        guard end - span.startedAt >= Self.shortestWait else { return }
        // What was answered without asking has waited all the time.
        span.child("wait", at: span.startedAt).end(at: end)
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

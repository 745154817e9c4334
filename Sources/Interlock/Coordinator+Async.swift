public import InterlockCore
internal import NIOConcurrencyHelpers
internal import NIOCore

/// The calls for `async` code. Cancelling the task gives the call up; it then throws `CancellationError`.
extension Coordinator {
    /// Takes a lock, or waits for it.
    /// - Returns: the lease; `nil`: another has it, also at the end of the wait.
    /// - Throws: `InterlockError`.
    package nonisolated func acquireLock(_ request: LockRequest) async throws -> Lease? {
        let answer = try await traced(.acquire, request.name.text, wait: request.wait, { $0.answered($1) }) {
            $0.acquireLock(request, completion: $1)
        }
        switch answer {
        case .granted(let lease): return lease
        case .held: return nil
        case .failed(let error): throw error
        }
    }

    /// Takes several locks, or none: one after another, in the order of their names.
    /// - Returns: the leases, in the order in which they were asked for; `nil`: another has one of them, also at the end
    ///   of the wait.
    /// - Throws: `InterlockError`.
    package nonisolated func acquireLocks(_ request: JointLockRequest) async throws -> [Lease]? {
        let lock = request.template
        let answer = try await traced(.acquire, lock.name.text, wait: lock.wait, { $0.answered($1) }) {
            $0.acquireLocks(request, completion: $1)
        }
        switch answer {
        case .granted(let leases): return leases
        case .held: return nil
        case .failed(let error): throw error
        }
    }

    /// Looks after a lease that was granted just now.
    /// - Parameter isLinked: the lease is extended at a third of its length for as long as it is followed.
    /// - Throws: `InterlockError` when too many leases are looked after, or locks are kept on a quorum.
    package func followLease(_ lease: Lease, isLinked: Bool) throws -> FollowedLease {
        let (losses, continuation) = AsyncStream.makeStream(of: LeaseLoss.self, bufferingPolicy: .bufferingNewest(1))
        let follower = try calls.followLease(lease, isLinked: isLinked) { end in
            if let loss = end.loss { continuation.yield(loss) }
            continuation.finish()
        }.get()
        let interest = LeaseInterest { [weak self, eventLoop] in
            eventLoop.execute { [weak self] in self?.assumeIsolated { $0.calls.unfollowLease(follower) } }
        }
        // A caller that keeps only the stream is interested too. The stream releases this closure when it ends, is
        // cancelled or is dropped.
        continuation.onTermination = { _ in withExtendedLifetime(interest) {} }
        return FollowedLease(follower: follower, losses: losses, interest: interest, end: { continuation.finish() })
    }

    /// Stops extending a lease, which then lapses, and ends the stream of its loss.
    package func unfollowLease(_ lease: FollowedLease) {
        calls.unfollowLease(lease.follower)
        lease.end()
    }

    /// Releases a lease that is followed, when it is still held: its holder has gone.
    package func releaseFollowedLease(_ follower: LeaseFollower) {
        calls.releaseFollowedLease(follower)
    }

    /// Extends a lease to `ttl` milliseconds from now.
    /// - Parameter fence: extends only the lease with this fence, not a later one of the same owner; `nil` for
    ///   whichever the token has.
    /// - Returns: for how many milliseconds it can be relied on; `nil`: lost.
    package nonisolated func renewLock(
        _ name: ResourceName, token: String, ttl: Int64, fence: Int64? = nil
    ) async throws -> Int64? {
        let answer: RenewAnswer = try await cancellable {
            $0.renewLock(name, token: token, ttl: ttl, fence: fence, completion: $1)
            return nil
        }
        switch answer {
        case .renewed(let valid): return valid
        case .lost: return nil
        case .failed(let error): throw error
        }
    }

    /// Releases a lease, even when the task is cancelled.
    /// - Parameter fence: see `renewLock`.
    /// - Returns: `false` when the token did not hold the lock, or held it under another fence.
    package nonisolated func releaseLock(_ name: ResourceName, token: String, fence: Int64? = nil) async throws -> Bool {
        let answer: ReleaseAnswer = try await uncancellable {
            $0.releaseLock(name, token: token, fence: fence, completion: $1)
            return nil
        }
        return try answer.isReleased
    }

    /// Takes a lock from whoever has it, or from the grant with this fence alone.
    /// - Returns: `false`: there is no such lease.
    package nonisolated func breakLock(_ name: ResourceName, by: String, fence: Int64? = nil) async throws -> Bool {
        let answer: ReleaseAnswer = try await cancellable {
            $0.breakLock(name, by: by, fence: fence, completion: $1)
            return nil
        }
        return try answer.isReleased
    }

    /// What is known of a lock; `nil`: nobody holds it or waits for it.
    package nonisolated func inspectLock(_ name: ResourceName) async throws -> LockInformation? {
        try await result { $0.inspectLock(name, completion: $1) }
    }

    /// What is known of each of these locks, in its place; `nil`: nobody holds it or waits for it.
    package nonisolated func inspectLocks(_ names: [ResourceName]) async throws -> [LockInformation?] {
        try await result { calls, completion in calls.inspectLocks(names) { completion($0) } }
    }

    /// One step through the locks that are held.
    package nonisolated func listLocks(cursor: String, matching glob: String, count: Int) async throws -> LockPage {
        try await result { $0.listLocks(cursor: cursor, matching: glob, count: count, completion: $1) }
    }

    /// Takes `cost` from all limits of a service that apply, or from none.
    package nonisolated func take(
        service: String, cost: Int64 = 1, subject: String? = nil, waitMilliseconds: Int64 = 0
    ) async throws -> LimitAnswer {
        let answer = try await traced(.take, service, wait: waitMilliseconds, { $0.answered($1) }) { calls, completion in
            switch calls.service(service) {
            case .success(let reference):
                return calls.take(
                    reference, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: calls.now(),
                    completion: completion)
            case .failure(let error):
                completion(.failed(error))
                return nil
            }
        }
        return try Self.decision(answer)
    }

    /// What is decided about a request for a domain's limits; `nil`: the domain is not configured.
    package nonisolated func decide(_ domain: String, _ asks: [DescriptorAsk]) async throws -> DescriptorAnswer? {
        let decision: DescriptorDecision? = try await cancellable { calls, completion in
            let isKnown = calls.decide(
                domain, asks,
                completion: Completion { _, decision in
                    completion(decision)
                    return true
                })
            if !isKnown { completion(nil) }
            return nil
        }
        switch decision {
        case .decided(let answer): return answer
        case .failed(let error): throw error
        case nil: return nil
        }
    }

    /// What a call of cost 1 would be told, taking nothing.
    package nonisolated func peek(service: String, subject: String? = nil) async throws -> LimitAnswer {
        let answer: TakeAnswer = try await cancellable {
            $0.peek(service: service, subject: subject, completion: $1)
            return nil
        }
        return try Self.decision(answer)
    }

    /// Where each limit stands that applies to a call; takes nothing.
    package nonisolated func listLimits(service: String, subject: String?) async throws -> [LimitStanding] {
        try await result { $0.listLimits(service: service, subject: subject, completion: $1) }
    }

    /// Takes from a rate that the caller names, as `CL.THROTTLE` of redis-cell does.
    package nonisolated func throttle(_ request: ThrottleRequest) async throws -> ThrottleAnswer {
        try await result { $0.throttle(request, completion: $1) }
    }

    /// Asks breaker and limits of a service in one step.
    /// - Returns: granted or refused, never failed.
    package nonisolated func acquirePermit(
        service: String, cost: Int64 = 1, subject: String? = nil, waitMilliseconds: Int64 = 0
    ) async throws -> PermitAnswer {
        let answer = try await traced(.permit, service, wait: waitMilliseconds, { $0.answered($1) }) { calls, completion in
            switch calls.service(service) {
            case .success(let reference):
                return calls.acquirePermit(
                    reference, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: calls.now(),
                    completion: completion)
            case .failure(let error):
                completion(.failed(error))
                return nil
            }
        }
        if case .failed(let error) = answer { throw error }
        return answer
    }

    /// Reports the outcome of a permitted call.
    /// - Returns: the breaker's state after it.
    package nonisolated func reportPermit(
        service: String, permit: PermitID, _ report: OutcomeReport
    ) async throws -> BreakerSnapshot.State {
        try await result { $0.reportPermit(service: service, permit: permit, report, completion: $1) }
    }

    /// Forces a breaker's state for the whole fleet; `nil`: back to automatic, closed.
    /// - Parameters:
    ///   - milliseconds: after so long it goes back to automatic; `nil`: it does not by itself.
    ///   - reason: in words for people, at most `BreakerSnapshot.longestReason` bytes.
    package nonisolated func forceBreaker(
        service: String, to state: BreakerSnapshot.Forced?, forMilliseconds milliseconds: Int64? = nil, reason: String = "",
        by: String
    ) async throws -> BreakerStatus {
        try await result {
            $0.forceBreaker(
                service: service, to: state, forMilliseconds: milliseconds, reason: reason, by: by, completion: $1)
        }
    }

    /// Tells a service's breaker what its outage monitor has found. See `CoordinatorCalls.reportOutage`.
    /// - Returns: the breaker's state after it.
    package nonisolated func reportOutage(service: String, _ finding: OutageFinding) async throws -> BreakerSnapshot.State {
        try await result { $0.reportOutage(service: service, finding, completion: $1) }
    }

    /// A service's breaker as this sidecar sees it. No Redis.
    /// - Throws: `InterlockError` when there is no such service.
    package func breaker(service: String) throws -> BreakerStatus { try calls.breaker(service: service).get() }

    /// All services' breakers, by name. No Redis.
    package func allBreakers() -> [BreakerStatus] { calls.allBreakers() }

    /// The last grants through this sidecar, the newest first. No Redis.
    package func grants(of name: ResourceName? = nil) -> [GrantRecord] { calls.grants(of: name) }

    /// Returns the live members of the fleet, sorted by ID.
    /// - Throws: `InterlockError` when Redis cannot be asked.
    public func fleet() async throws -> [FleetMember] {
        try await withCheckedContinuation { continuation in
            calls.listFleet(
                completion: Completion { _, answer in
                    continuation.resume(returning: answer)
                    return true
                })
        }.get()
    }

    /// A service's definition, if it is configured.
    package func definition(ofService name: String) -> ServiceDefinition? { calls.definition(ofService: name) }

    private static func decision(_ answer: TakeAnswer) throws(InterlockError) -> LimitAnswer {
        switch answer {
        case .decided(let answer), .decidedAlike(let answer, _, _): return answer
        case .failed(let error): throw error
        }
    }

    private typealias AsyncCall<Answer> = @Sendable (CoordinatorCalls, Completion<Answer>) -> PendingCall?

    /// Makes a call, in a span when the program has a tracer.
    /// - Parameters:
    ///   - subject: the name of the lock or the service.
    ///   - wait: how long it may wait, in milliseconds.
    ///   - tell: tells the step its answer.
    private nonisolated func traced<Answer: Sendable>(
        _ step: StepTrace.Step, _ subject: String, wait: Int64, _ tell: (StepTrace, Answer) -> Void,
        _ call: @escaping AsyncCall<Answer>
    ) async throws -> Answer {
        guard let span = ProgramSpan(step.rawValue) else { return try await cancellable(call) }
        let limitsAskedAt = NIOLockedValueBox<Instant?>(nil)
        let trace = StepTrace(
            step, subject, wait: wait, span: span, askedAt: clock.now(),
            limitsAskedAt: { limitsAskedAt.withLockedValue(\.self) })
        do {
            let answer = try await cancellable { calls, completion in
                call(
                    calls,
                    completion.told { _ in
                        let instant = calls.limitsAskedAt
                        limitsAskedAt.withLockedValue { $0 = instant }
                    })
            }
            tell(trace, answer)
            return answer
        } catch {
            trace.givenUp()
            throw error
        }
    }

    /// Makes a call and waits for its answer; an answer that comes after the task was cancelled finds nobody.
    ///
    /// The caller stays where it is: what the event loop is told and what it answers wake one thread each. A method of the actor would
    /// go there and come back, and be resumed in between.
    private nonisolated func cancellable<Answer: Sendable>(_ call: @escaping AsyncCall<Answer>) async throws -> Answer {
        let waiter = CallWaiter<Answer>(isOnEventLoop: eventLoop.inEventLoop)
        return try await withTaskCancellationHandler {
            try await answer(to: call, waiter)
        } onCancel: {
            onEventLoop { waiter.cancel($0.calls) }
        }
    }

    /// Makes a call that answers with a result. Cancellation leaves the call under way.
    private nonisolated func result<Value: Sendable>(
        _ call: @escaping @Sendable (CoordinatorCalls, Completion<Result<Value, InterlockError>>) -> Void
    ) async throws -> Value {
        try await cancellable { calls, completion in
            call(calls, completion)
            return nil
        }.get()
    }

    /// Makes a call that is carried out even when its task is cancelled; its answer comes within `redis.timeout`.
    private nonisolated func uncancellable<Answer: Sendable>(_ call: @escaping AsyncCall<Answer>) async throws -> Answer {
        try await answer(to: call, CallWaiter<Answer>(isOnEventLoop: eventLoop.inEventLoop))
    }

    private nonisolated func answer<Answer: Sendable>(
        to call: @escaping AsyncCall<Answer>, _ waiter: CallWaiter<Answer>
    ) async throws -> Answer {
        try await withCheckedThrowingContinuation { continuation in
            onEventLoop { waiter.begin(continuation, $0.calls, call) }
        }
    }

    /// Now if this is the event loop, else soon.
    private nonisolated func onEventLoop(_ body: @escaping @Sendable (isolated Coordinator) -> Void) {
        if eventLoop.inEventLoop {
            assumeIsolated(body)
        } else {
            eventLoop.execute { self.assumeIsolated(body) }
        }
    }
}

/// One `async` call: whoever comes first, the answer or the cancellation, resumes it.
///
/// Sendable without a lock because it is touched on the coordinator's event loop only; its task merely passes it there.
private final class CallWaiter<Answer: Sendable>: @unchecked Sendable {
    private var continuation: CheckedContinuation<Answer, any Error>?
    private var pending: PendingCall?
    private var isCancelled = false
    private var isBeginning = false
    /// Where its task is as well.
    private let isOnEventLoop: Bool

    init(isOnEventLoop: Bool) {
        self.isOnEventLoop = isOnEventLoop
    }

    func begin(
        _ continuation: CheckedContinuation<Answer, any Error>, _ calls: CoordinatorCalls,
        _ call: (CoordinatorCalls, Completion<Answer>) -> PendingCall?
    ) {
        self.continuation = continuation
        isBeginning = true
        defer { isBeginning = false }
        guard !isCancelled else { return cancel(calls) }
        pending = call(calls, Completion { [self] _, answer in resume(.success(answer), calls) })
    }

    private func resume(_ result: Result<Answer, any Error>, _ calls: CoordinatorCalls) -> Bool {
        guard let continuation else { return false }
        self.continuation = nil
        if isOnEventLoop, isBeginning, calls.isPauseDue() {
            calls.runtime.eventLoop.assumeIsolated().scheduleTask(in: CoordinatorCalls.pause) {
                continuation.resume(with: result)
            }
        } else {
            continuation.resume(with: result)
        }
        return true
    }

    func cancel(_ calls: CoordinatorCalls) {
        isCancelled = true
        guard resume(.failure(CancellationError()), calls) else { return }
        if let pending { calls.cancel(pending) }
    }
}

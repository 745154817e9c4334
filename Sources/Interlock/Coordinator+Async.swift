public import InterlockCore
internal import NIOConcurrencyHelpers
internal import NIOCore

/// The calls for `async` code. Cancelling the task cancels the call, which then throws `CancellationError`.
extension Coordinator {
    /// Acquires a lock, or waits for it.
    /// - Returns: the lease; `nil` if another holder has it, even after the wait.
    /// - Throws: `InterlockError`.
    package nonisolated func acquireLock(_ request: LockRequest) async throws -> Lease? {
        let acquisition = try await traced(
            .acquire, request.name.text, waitMilliseconds: request.waitMilliseconds, { $0.stepAnswered($1) }
        ) {
            $0.acquireLock(request, completion: $1)
        }
        switch acquisition {
        case .granted(let lease): return lease
        case .held: return nil
        case .failed(let error): throw error
        }
    }

    /// Acquires all of several locks or none of them, one after another in the order of their names.
    /// - Returns: the leases in the order of the request; `nil` if another holder has one of the locks, even after
    ///   the wait.
    /// - Throws: `InterlockError`.
    package nonisolated func acquireLocks(_ request: JointLockRequest) async throws -> [Lease]? {
        let lock = request.template
        let acquisition = try await traced(
            .acquire, lock.name.text, waitMilliseconds: lock.waitMilliseconds, { $0.stepAnswered($1) }
        ) {
            $0.acquireLocks(request, completion: $1)
        }
        switch acquisition {
        case .granted(let leases): return leases
        case .held: return nil
        case .failed(let error): throw error
        }
    }

    /// Starts following a lease that was just granted.
    /// - Parameter isLinked: whether the lease is renewed every third of its TTL while it is followed.
    /// - Throws: `InterlockError` if too many leases are followed, or if locks are kept on a quorum.
    package func followLease(_ lease: Lease, isLinked: Bool) throws -> FollowedLease {
        let (losses, continuation) = AsyncStream.makeStream(of: LeaseLoss.self, bufferingPolicy: .bufferingNewest(1))
        let follower = try loopCoordinator.followLease(lease, isLinked: isLinked) { end in
            if let loss = end.loss { continuation.yield(loss) }
            continuation.finish()
        }.get()
        let interest = LeaseInterest { [weak self, eventLoop] in
            eventLoop.execute { [weak self] in self?.assumeIsolated { $0.loopCoordinator.unfollowLease(follower) } }
        }
        // The stream also keeps the lease followed for a caller that holds only the stream. It releases this closure
        // when it ends, is cancelled or is dropped.
        continuation.onTermination = { _ in withExtendedLifetime(interest) {} }
        return FollowedLease(follower: follower, losses: losses, interest: interest, end: { continuation.finish() })
    }

    /// Stops following a lease, and ends its stream of losses. A linked lease then expires, unless another follower is
    /// linked to it.
    package func unfollowLease(_ lease: FollowedLease) {
        loopCoordinator.unfollowLease(lease.follower)
        lease.end()
    }

    /// Releases a followed lease whose holder has disconnected, if it is still held.
    package func releaseFollowedLease(_ follower: LeaseFollower) {
        loopCoordinator.releaseFollowedLease(follower)
    }

    /// Renews a lease to `ttlMilliseconds` from now.
    /// - Parameter fence: the fence of the only lease to renew, not a later one of the same owner; `nil` for the
    ///   token's current lease.
    /// - Returns: the time in milliseconds for which the lease can be relied on; `nil` if it is lost.
    package nonisolated func renewLock(
        _ name: ResourceName, token: String, ttlMilliseconds: Int64, fence: Int64? = nil
    ) async throws -> Int64? {
        let renewal: RenewResult = try await cancellable {
            $0.renewLock(name, token: token, ttlMilliseconds: ttlMilliseconds, fence: fence, completion: $1)
            return nil
        }
        switch renewal {
        case .renewed(let validMilliseconds): return validMilliseconds
        case .lost: return nil
        case .failed(let error): throw error
        }
    }

    /// Releases a lease, even if the task is cancelled.
    /// - Parameter fence: see `renewLock`.
    /// - Returns: `false` if the token did not hold the lock, or held it under another fence.
    package nonisolated func releaseLock(_ name: ResourceName, token: String, fence: Int64? = nil) async throws -> Bool {
        let release: ReleaseResult = try await uncancellable {
            $0.releaseLock(name, token: token, fence: fence, completion: $1)
            return nil
        }
        return try release.isReleased
    }

    /// Ends the lease of a lock's holder; with a `fence`, only if that is the fence of its grant.
    /// - Returns: `false` if there is no such lease.
    package nonisolated func breakLock(_ name: ResourceName, by: String, fence: Int64? = nil) async throws -> Bool {
        let release: ReleaseResult = try await cancellable {
            $0.breakLock(name, by: by, fence: fence, completion: $1)
            return nil
        }
        return try release.isReleased
    }

    /// Returns the state of a lock; `nil` if it has no holder and no waiters.
    package nonisolated func inspectLock(_ name: ResourceName) async throws -> LockInformation? {
        try await result { $0.inspectLock(name, completion: $1) }
    }

    /// Returns the state of each of these locks, in the same order; `nil` for one that has no holder and no waiters.
    package nonisolated func inspectLocks(_ names: [ResourceName]) async throws -> [LockInformation?] {
        try await result { coordinator, completion in coordinator.inspectLocks(names) { completion($0) } }
    }

    /// Returns one page of the held locks.
    package nonisolated func listLocks(cursor: String, matching glob: String, count: Int) async throws -> LockPage {
        try await result { $0.listLocks(cursor: cursor, matching: glob, count: count, completion: $1) }
    }

    /// Takes `cost` from all limits of a service that apply, or from none of them.
    package nonisolated func take(
        service: String, cost: Int64 = 1, subject: String? = nil, waitMilliseconds: Int64 = 0
    ) async throws -> CallDecision {
        let take = try await traced(.take, service, waitMilliseconds: waitMilliseconds, { $0.stepAnswered($1) }) {
            coordinator, completion in
            switch coordinator.service(service) {
            case .success(let reference):
                return coordinator.take(
                    reference, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: coordinator.now(),
                    completion: completion)
            case .failure(let error):
                completion(.failed(error))
                return nil
            }
        }
        return try Self.decision(take)
    }

    /// Decides whether the limits of a domain allow a request with these descriptors. Returns `nil` if the domain is
    /// not configured.
    package nonisolated func decide(_ domain: String, _ requested: [RequestedDescriptor]) async throws -> RequestDecision? {
        let result: DescriptorResult? = try await cancellable { coordinator, completion in
            let isKnown = coordinator.decide(
                domain, requested,
                completion: Completion { _, decision in
                    completion(decision)
                    return true
                })
            if !isKnown { completion(nil) }
            return nil
        }
        switch result {
        case .decided(let decision): return decision
        case .failed(let error): throw error
        case nil: return nil
        }
    }

    /// Returns how a call of cost 1 would be decided, without taking anything.
    package nonisolated func peek(service: String, subject: String? = nil) async throws -> CallDecision {
        let take: TakeResult = try await cancellable {
            $0.peek(service: service, subject: subject, completion: $1)
            return nil
        }
        return try Self.decision(take)
    }

    /// Returns the state of each limit that applies to a call, without taking anything.
    package nonisolated func listLimits(service: String, subject: String?) async throws -> [LimitState] {
        try await result { $0.listLimits(service: service, subject: subject, completion: $1) }
    }

    /// Takes from a rate that the caller specifies, like `CL.THROTTLE` of redis-cell.
    package nonisolated func throttle(_ request: ThrottleRequest) async throws -> ThrottleResult {
        try await result { $0.throttle(request, completion: $1) }
    }

    /// Asks the breaker, the limits and the bulkhead of a service in one step.
    /// - Returns: the grant or the refusal; never `failed`, because a failure is thrown.
    package nonisolated func acquirePermit(
        service: String, cost: Int64 = 1, subject: String? = nil, waitMilliseconds: Int64 = 0
    ) async throws -> PermitResult {
        let decision = try await traced(.permit, service, waitMilliseconds: waitMilliseconds, { $0.stepAnswered($1) }) {
            coordinator, completion in
            switch coordinator.service(service) {
            case .success(let reference):
                return coordinator.acquirePermit(
                    reference, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, now: coordinator.now(),
                    completion: completion)
            case .failure(let error):
                completion(.failed(error))
                return nil
            }
        }
        if case .failed(let error) = decision { throw error }
        return decision
    }

    /// Reports the outcome of a permitted call.
    /// - Returns: the breaker's state after the report.
    package nonisolated func reportPermit(
        service: String, permit: PermitID, _ report: OutcomeReport
    ) async throws -> BreakerSnapshot.State {
        try await result { $0.reportPermit(service: service, permit: permit, report, completion: $1) }
    }

    /// Forces a breaker's state for the whole fleet; `nil` ends the forced state and closes the breaker.
    /// - Parameters:
    ///   - milliseconds: how long the state stays forced; `nil` for no end.
    ///   - reason: a human-readable description, at most `BreakerSnapshot.maximumReasonLength` bytes.
    package nonisolated func forceBreaker(
        service: String, to state: BreakerSnapshot.Forced?, forMilliseconds milliseconds: Int64? = nil, reason: String = "",
        by: String
    ) async throws -> BreakerStatus {
        try await result {
            $0.forceBreaker(
                service: service, to: state, forMilliseconds: milliseconds, reason: reason, by: by, completion: $1)
        }
    }

    /// Reports a finding of the outage monitor to a service's breaker. See `LoopBoundCoordinator.reportOutage`.
    /// - Returns: the breaker's state after the report.
    package nonisolated func reportOutage(service: String, _ finding: OutageFinding) async throws -> BreakerSnapshot.State {
        try await result { $0.reportOutage(service: service, finding, completion: $1) }
    }

    /// Returns the state of a service's breaker that this sidecar knows, without asking Redis.
    /// - Throws: `InterlockError` if there is no such service.
    package func breaker(service: String) throws -> BreakerStatus { try loopCoordinator.breaker(service: service).get() }

    /// Returns the state of every breaker, sorted by service name, without asking Redis.
    package func allBreakers() -> [BreakerStatus] { loopCoordinator.allBreakers() }

    /// Returns the recent grants through this sidecar, newest first, without asking Redis.
    package func grants(of name: ResourceName? = nil) -> [GrantRecord] { loopCoordinator.grants(of: name) }

    /// Returns the live members of the fleet, sorted by ID.
    /// - Throws: `InterlockError` if Redis does not answer.
    public func fleet() async throws -> [FleetMember] {
        try await withCheckedContinuation { continuation in
            loopCoordinator.listFleet(
                completion: Completion { _, members in
                    continuation.resume(returning: members)
                    return true
                })
        }.get()
    }

    /// Returns a service's definition; `nil` if it is not configured.
    package func definition(ofService name: String) -> ServiceDefinition? { loopCoordinator.definition(ofService: name) }

    private static func decision(_ take: TakeResult) throws(InterlockError) -> CallDecision {
        switch take {
        case .decided(let decision), .decidedBatch(let decision, _, _): return decision
        case .failed(let error): throw error
        }
    }

    private typealias AsyncCall<Answer> = @Sendable (LoopBoundCoordinator, Completion<Answer>) -> PendingCall?

    /// Makes a call, in a span if the program has a tracer.
    /// - Parameters:
    ///   - resourceName: the name of the lock or the service.
    ///   - waitMilliseconds: the maximum wait, in milliseconds.
    ///   - record: records the answer in the trace.
    private nonisolated func traced<Answer: Sendable>(
        _ step: StepTrace.Step, _ resourceName: String, waitMilliseconds: Int64, _ record: (StepTrace, Answer) -> Void,
        _ call: @escaping AsyncCall<Answer>
    ) async throws -> Answer {
        guard let span = ProgramSpan(step.rawValue) else { return try await cancellable(call) }
        let lastLimitRequest = NIOLockedValueBox<Instant?>(nil)
        let trace = StepTrace(
            step, resourceName, waitMilliseconds: waitMilliseconds, span: span, requestedAt: clock.now(),
            lastLimitRequest: { lastLimitRequest.withLockedValue(\.self) })
        do {
            let answer = try await cancellable { coordinator, completion in
                call(
                    coordinator,
                    completion.reported { _ in
                        let instant = coordinator.limitsRequestedAt
                        lastLimitRequest.withLockedValue { $0 = instant }
                    })
            }
            record(trace, answer)
            return answer
        } catch {
            trace.abandon()
            throw error
        }
    }

    /// Makes a call and waits for its answer. A grant that arrives after the cancellation is released.
    ///
    /// Nonisolated, so that the call and its answer each wake one thread. A method of the actor would also have to hop
    /// to the event loop and back.
    private nonisolated func cancellable<Answer: Sendable>(_ call: @escaping AsyncCall<Answer>) async throws -> Answer {
        let waiter = CallWaiter<Answer>(isOnEventLoop: eventLoop.inEventLoop)
        return try await withTaskCancellationHandler {
            try await answer(to: call, waiter)
        } onCancel: {
            onEventLoop { waiter.cancel($0.loopCoordinator) }
        }
    }

    /// Makes a call that answers with a `Result`. Cancellation ends only the wait, not the call.
    private nonisolated func result<Value: Sendable>(
        _ call: @escaping @Sendable (LoopBoundCoordinator, Completion<Result<Value, InterlockError>>) -> Void
    ) async throws -> Value {
        try await cancellable { coordinator, completion in
            call(coordinator, completion)
            return nil
        }.get()
    }

    /// Makes a call that completes even if its task is cancelled. The answer arrives within `redis.timeout`.
    private nonisolated func uncancellable<Answer: Sendable>(_ call: @escaping AsyncCall<Answer>) async throws -> Answer {
        try await answer(to: call, CallWaiter<Answer>(isOnEventLoop: eventLoop.inEventLoop))
    }

    private nonisolated func answer<Answer: Sendable>(
        to call: @escaping AsyncCall<Answer>, _ waiter: CallWaiter<Answer>
    ) async throws -> Answer {
        try await withCheckedThrowingContinuation { continuation in
            onEventLoop { waiter.begin(continuation, $0.loopCoordinator, call) }
        }
    }

    /// Runs `body` immediately if the caller is on the event loop, otherwise in a later tick.
    private nonisolated func onEventLoop(_ body: @escaping @Sendable (isolated Coordinator) -> Void) {
        if eventLoop.inEventLoop {
            assumeIsolated(body)
        } else {
            eventLoop.execute { self.assumeIsolated(body) }
        }
    }
}

/// The continuation of one `async` call. Either the answer or the cancellation resumes it, whichever is first.
///
/// Safe to send without a lock, because it is used only on the coordinator's event loop. The calling task only passes
/// it there.
private final class CallWaiter<Answer: Sendable>: @unchecked Sendable {
    private var continuation: CheckedContinuation<Answer, any Error>?
    private var pending: PendingCall?
    private var isCancelled = false
    private var isStarting = false
    /// Whether the calling task also runs on the event loop.
    private let isOnEventLoop: Bool

    init(isOnEventLoop: Bool) {
        self.isOnEventLoop = isOnEventLoop
    }

    func begin(
        _ continuation: CheckedContinuation<Answer, any Error>, _ coordinator: LoopBoundCoordinator,
        _ call: (LoopBoundCoordinator, Completion<Answer>) -> PendingCall?
    ) {
        self.continuation = continuation
        isStarting = true
        defer { isStarting = false }
        guard !isCancelled else { return cancel(coordinator) }
        pending = call(coordinator, Completion { [self] _, answer in resume(.success(answer), coordinator) })
    }

    /// Resumes the task. Returns `false` if it was resumed before.
    private func resume(_ result: Result<Answer, any Error>, _ coordinator: LoopBoundCoordinator) -> Bool {
        guard let continuation else { return false }
        self.continuation = nil
        if isOnEventLoop, isStarting, coordinator.isPauseDue() {
            coordinator.runtime.eventLoop.assumeIsolated().scheduleTask(in: LoopBoundCoordinator.pause) {
                continuation.resume(with: result)
            }
        } else {
            continuation.resume(with: result)
        }
        return true
    }

    func cancel(_ coordinator: LoopBoundCoordinator) {
        isCancelled = true
        guard resume(.failure(CancellationError()), coordinator) else { return }
        if let pending { coordinator.cancel(pending) }
    }
}

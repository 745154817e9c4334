internal import InterlockCore
internal import Tracing

/// Guarded calls for Swift programs: `coordinator.services`. A client of a sidecar has the same method.
///
/// Each call needs a permit from the service's breaker, its limits and its bulkhead in this program. The outcome is
/// reported, so that the breaker sees failures and slow calls.
public struct Services: Sendable {
    let coordinator: Coordinator

    /// Makes a call to a service.
    ///
    /// If the service grants a permit, `operation` runs once, with the isolation of the caller; otherwise it does not
    /// run. The latency of the call is the duration of `operation`. Cancelling the task ends the wait for a permit. A
    /// running `operation` sees the cancellation like any other code. If it then throws, the call is not counted.
    ///
    /// - Parameters:
    ///   - service: the name of a configured service.
    ///   - cost: the amount to take from the service's limits, 1 or more.
    ///   - subject: the tenant that the call counts for in limits per subject.
    ///   - wait: the maximum wait for a limit, for a slot of the bulkhead and for the end of a pause that a limit has
    ///     caused; limited to the configuration's `maximumWait`. The default is the wait of the service's `onLimit` if
    ///     its action is `wait` or `trip`, otherwise zero.
    ///   - judge: derives the outcome from the call's result. By default, a value is a success and an error is a
    ///     failure, but a cancelled call has no outcome. If the judge gives no latency, the measured latency is
    ///     reported.
    ///   - isolation: the isolation of `operation`, by default that of the caller.
    ///   - operation: the call. If the program has a tracer, it runs in the span `interlock.upstream`.
    /// - Returns: the result of `operation`.
    /// - Throws: `ServiceCallError` if the call was not made, `CancellationError` if the task was cancelled first,
    ///   otherwise the error of `operation`.
    public func call<Value>(
        _ service: String, cost: Int = 1, subject: String? = nil, wait: Duration? = nil,
        judgedBy judge: (Result<Value, any Error>) -> OutcomeReport = OutcomeReport.init(of:),
        isolation: isolated (any Actor)? = #isolation,
        operation: () async throws -> Value
    ) async throws -> Value {
        try await ProgramSpan.within("call", of: service) { span in
            _ = isolation
            let permit = try await permit(service, cost: cost, subject: subject, wait: wait)
            let startedAt = coordinator.clock.now()
            let result = await Result(awaiting: {
                try await ProgramSpan.within("upstream", kind: .client, of: service, isolation: isolation) { _ in
                    _ = isolation
                    return try await operation()
                }
            })
            let latency = Duration.nanoseconds(coordinator.clock.now().nanoseconds - startedAt.nanoseconds)
            var report = judge(result)
            if report.latency == nil { report.latency = latency }
            span?.set("interlock.outcome", report.outcome.rawValue)
            await coordinator.reportPermitOutcome(service: service, permit: permit, report)
            return try result.get()
        }
    }

    private func permit(_ service: String, cost: Int, subject: String?, wait: Duration?) async throws -> PermitID {
        let result: PermitResult
        do {
            result = try await coordinator.acquirePermit(
                service: service, cost: Int64(cost), subject: subject, wait: wait)
        } catch let error as InterlockError {
            throw ServiceCallError(error, service: service)
        }
        switch result {
        case .granted(let permit, _): return permit
        case .refused(let reason, let state, let retryAfterMilliseconds):
            throw ServiceCallError(
                refused: InterlockError.Code(rawValue: reason.rawValue), service: service, state: state,
                retryAfterMilliseconds: retryAfterMilliseconds)
        case .failed(let error): throw ServiceCallError(error, service: service)
        }
    }
}

extension Coordinator {
    /// Guarded calls to services.
    public nonisolated var services: Services { Services(coordinator: self) }
}

extension Coordinator {
    /// Acquires a permit. The call waits for at most `wait`; `nil` for the wait that is configured for the service.
    func acquirePermit(
        service: String, cost: Int64, subject: String?, wait: Duration?
    ) async throws -> PermitResult {
        try LimitRequest.check(cost: cost, subject: subject)
        let policy = definition(ofService: service)?.onLimit
        let wait = wait ?? (policy.map { $0.action == .deny ? .zero : $0.maximumWait } ?? .zero)
        return try await acquirePermit(
            service: service, cost: cost, subject: subject, waitMilliseconds: max(0, wait.wholeMilliseconds))
    }

    /// Reports the outcome of a permitted call, even if its task was cancelled. Takes no longer than `redis.timeout`.
    /// Ignores a failed report, because the call was made.
    func reportPermitOutcome(service: String, permit: PermitID, _ report: OutcomeReport) async {
        await withCheckedContinuation { continuation in
            loopCoordinator.reportPermit(
                service: service, permit: permit, report,
                completion: Completion { _, _ in
                    continuation.resume()
                    return true
                })
        }
    }
}

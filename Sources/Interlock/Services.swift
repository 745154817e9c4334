internal import InterlockCore
internal import Tracing

/// Guarded calls for Swift programs: `coordinator.services`. A client of a sidecar has the same method.
///
/// A call is made with a permit of its service: its breaker, its limits and its places in this program have agreed. What became
/// of it is reported, so that the breaker sees failures and slow calls.
public struct Services: Sendable {
    let coordinator: Coordinator

    /// Makes a call to a service.
    ///
    /// `operation` runs once, where the caller runs, when the service may be called, and not at all otherwise. The time spent in
    /// it is the call's latency. Cancelling the task gives up the wait; `operation` itself sees the cancellation as any
    /// other code does. When it ends by that, the call counts for nothing.
    ///
    /// - Parameters:
    ///   - service: the name of a configured service.
    ///   - cost: how much the call takes from the service's limits, 1 or more.
    ///   - subject: whom it counts for in the limits that count per subject.
    ///   - patience: how long to wait at most: at a limit, for a place, and through a pause that a limit made. By default that
    ///     of the service's `onLimit` when its action is `wait` or `trip`, else none. At most the configuration's
    ///     `maximumWait`.
    ///   - judge: says what became of the call. By default a value is a success and an error a failure, except that a call
    ///     that was cancelled says nothing. Where the judge gives no latency, the measured one is reported.
    ///   - isolation: where `operation` runs: with its caller.
    ///   - operation: the call. When the program has a tracer, it runs in the span `interlock.upstream`.
    /// - Returns: what `operation` returns.
    /// - Throws: `ServiceCallError` when the call was not made, `CancellationError` when the task was cancelled first;
    ///   else what `operation` throws.
    public func call<Value>(
        _ service: String, cost: Int = 1, subject: String? = nil, patience: Duration? = nil,
        judgedBy judge: (Result<Value, any Error>) -> OutcomeReport = OutcomeReport.init(of:),
        isolation: isolated (any Actor)? = #isolation,
        operation: () async throws -> Value
    ) async throws -> Value {
        try await ProgramSpan.within("call", of: service) { span in
            _ = isolation
            let permit = try await permit(service, cost: cost, subject: subject, patience: patience)
            let begun = coordinator.clock.now()
            let result = await Result(awaiting: {
                try await ProgramSpan.within("upstream", kind: .client, of: service, isolation: isolation) { _ in
                    _ = isolation
                    return try await operation()
                }
            })
            let latency = Duration.nanoseconds(coordinator.clock.now().nanoseconds - begun.nanoseconds)
            var report = judge(result)
            if report.latency == nil { report.latency = latency }
            span?.set("interlock.outcome", report.outcome.rawValue)
            await coordinator.settlePermit(service: service, permit: permit, report)
            return try result.get()
        }
    }

    private func permit(_ service: String, cost: Int, subject: String?, patience: Duration?) async throws -> PermitID {
        let answer: PermitAnswer
        do {
            answer = try await coordinator.acquirePermit(
                service: service, cost: Int64(cost), subject: subject, patience: patience)
        } catch let error as InterlockError {
            throw ServiceCallError(error, service: service)
        }
        switch answer {
        case .granted(let permit, _): return permit
        case .refused(let reason, let state, let retryAfter):
            throw ServiceCallError(
                refused: InterlockError.Code(rawValue: reason.rawValue), service: service, state: state, retryAfter: retryAfter)
        case .failed(let error): throw ServiceCallError(error, service: service)
        }
    }
}

extension Coordinator {
    /// Guarded calls to services.
    public nonisolated var services: Services { Services(coordinator: self) }
}

extension Coordinator {
    /// A permit for a call that waits as its service says, unless its caller says how long.
    func acquirePermit(
        service: String, cost: Int64, subject: String?, patience: Duration?
    ) async throws -> PermitAnswer {
        try LimitRequest.check(cost: cost, subject: subject)
        let policy = definition(ofService: service)?.onLimit
        let patience = patience ?? (policy.map { $0.action == .deny ? .zero : $0.patience } ?? .zero)
        return try await acquirePermit(
            service: service, cost: cost, subject: subject, waitMilliseconds: max(0, patience.wholeMilliseconds))
    }

    /// Reports what became of a permitted call, also for a caller who was cancelled. It takes no longer than Redis may; a
    /// report that fails is not worth an error: the call was made.
    func settlePermit(service: String, permit: PermitID, _ report: OutcomeReport) async {
        await withCheckedContinuation { continuation in
            calls.reportPermit(
                service: service, permit: permit, report,
                completion: Completion { _, _ in
                    continuation.resume()
                    return true
                })
        }
    }
}

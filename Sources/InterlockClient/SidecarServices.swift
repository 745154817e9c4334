public import InterlockCore
internal import Logging

/// Guarded calls through a sidecar: `client.services`. An embedded coordinator has the same method.
public struct SidecarServices: Sendable {
    let client: SidecarClient

    /// Makes a call to a service.
    ///
    /// If the sidecar grants a permit, `operation` runs once, on the caller's actor; otherwise it does not run. The
    /// duration of `operation` is the call's latency. The client reports the outcome even if the task is cancelled.
    ///
    /// - Parameters:
    ///   - service: the name of a configured service.
    ///   - cost: the number of calls that this one counts as.
    ///   - subject: the tenant, user or address that the call counts for, in limits per subject.
    ///   - wait: how long to wait for a permit. The sidecar may wait for less: see `SidecarStatus.maximumWait`.
    ///   - judge: creates the report of the call's outcome. By default a value is a success, an error is a failure, and
    ///     a cancelled call is ignored. If the report has no latency, the measured one is used.
    ///   - isolation: the actor that `operation` runs on, by default the caller's.
    ///   - operation: the call.
    /// - Returns: the value of `operation`.
    /// - Throws: `ServiceCallError` if the call was not made, `CancellationError` if the task was cancelled before the
    ///   call, or the error of `operation`.
    public func call<Value>(
        _ service: String, cost: Int = 1, subject: String? = nil, wait: Duration = .zero,
        judgedBy judge: (Result<Value, any Error>) -> OutcomeReport = OutcomeReport.init(of:),
        isolation: isolated (any Actor)? = #isolation,
        operation: () async throws -> Value
    ) async throws -> Value {
        let permit = try await acquirePermit(
            UpstreamCallRequest(service: service, cost: Int64(cost), subject: subject, wait: wait))
        let start = ContinuousClock.now
        let result = await Result(awaiting: operation)
        let latency = ContinuousClock.now - start
        var report = judge(result)
        if report.latency == nil { report.latency = latency }
        await sendReport(report, of: permit, service)
        return try result.get()
    }

    private func acquirePermit(_ request: UpstreamCallRequest) async throws -> GrantedPermit {
        let reply: Result<GrantedPermit, ServiceCallError>
        do {
            reply = try await client.send(PermitCalls.Acquire(request))
        } catch let error as InterlockError {
            throw ServiceCallError(error, service: request.service)
        }
        let permit = try reply.get()
        guard Task.isCancelled else { return permit }
        await sendReport(OutcomeReport(outcome: .ignore), of: permit, request.service)
        throw CancellationError()
    }

    /// Reports the outcome, which takes at most `responseTimeout`. Only logs a failed report, because the call was made
    /// and the permit expires.
    private func sendReport(_ report: OutcomeReport, of permit: GrantedPermit, _ service: String) async {
        do {
            _ = try await client.sendOnSharedConnection(PermitCalls.Report(service: service, permit: permit.id, report))
        } catch {
            client.logger.warning(
                "The outcome of a call was not reported", metadata: ["service": "\(service)", "error": "\(error)"])
        }
    }
}

extension SidecarClient {
    /// Guarded calls to services.
    public nonisolated var services: SidecarServices { SidecarServices(client: self) }
}

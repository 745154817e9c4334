internal import Interlock
internal import InterlockCore
internal import NIOHTTP1
internal import SidecarTelemetry

/// Permits: the check of breaker and limits in one step, and the report of the call's outcome.
struct PermitRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.POST, "/v1/services/{service}/permits", onEventLoop: acquire),
            HTTPRoute(.POST, "/v1/services/{service}/permits/{id}", onEventLoop: report),
        ]
    }

    private func acquire(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        let service = try call.name("service").text
        let body = try CallBody(try call.fields(CallBody.fields))
        let calls = coordinator.callsOnEventLoop()
        let reference = try calls.service(service).get()
        let trace = call.span.map { StepTrace(.permit, service, wait: body.wait, of: $0, calls: calls) }
        let pending = calls.acquirePermit(
            reference, cost: body.cost, subject: body.subject, waitMilliseconds: body.wait,
            now: calls.now(),
            completion: Completion { [coordinator] _, decision in
                trace?.answered(decision)
                switch decision {
                case .granted(let permit, let state):
                    guard responder.isAwaited, !call.peer.hasDisconnected else { return false }
                    // The client makes the call, then reports its outcome under this ID.
                    var response = HTTPResponse.object(
                        ["permit": .string(permit.description), "state": .string(state.rawValue)], .created)
                    // A call that is never made says nothing about the service, and frees its slot immediately.
                    response.ifUndelivered = {
                        coordinator.callsOnEventLoop().reportPermit(
                            service: service, permit: permit, OutcomeReport(outcome: .ignore),
                            completion: Completion { _, _ in true })
                    }
                    return responder(response)
                case .refused(let reason, let state, let retryAfter):
                    return responder.fail(HTTPProblem.refused(reason, state, service: service, retryAfter: retryAfter))
                case .failed(let error):
                    return responder.fail(error)
                }
            })
        responder.cancelOnDisconnect(pending, calls)
    }

    private func report(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        let service = try call.name("service").text
        guard let permit = PermitID(call.parameter("id")) else {
            throw HTTPProblem(.invalid, "id: expected the 32 hexadecimal digits of a permit")
        }
        let fields = try call.fields("outcome", "latency_ms", "status", "retry_after_ms")
        let report = OutcomeReport(
            outcome: try fields.requiredChoice("outcome"),
            latencyMilliseconds: try fields.integer("latency_ms", in: HTTPLimits.milliseconds),
            status: try fields.integer("status", in: HTTPLimits.statuses).map(Int.init),
            retryAfterMilliseconds: try fields.integer("retry_after_ms", in: HTTPLimits.milliseconds))
        coordinator.callsOnEventLoop().reportPermit(
            service: service, permit: permit, report,
            completion: Completion { _, result in
                responder.respond { .object(["state": .string(try result.get().rawValue)]) }
            })
    }
}

extension HTTPProblem {
    /// - Parameter retryAfter: the time until a retry, in milliseconds; -1 if it is unknown.
    static func refused(
        _ reason: PermitResult.Reason, _ state: BreakerSnapshot.State, service: String, retryAfter: Int64
    ) -> HTTPProblem {
        var problem =
            switch reason {
            case .limited: limited(service: service, retryAfter: retryAfter)
            case .open: HTTPProblem(.open, "the breaker of the service \"\(service)\" is open; do not call it now")
            case .busy: HTTPProblem(.busy, "too many calls to the service \"\(service)\" are in progress; try again later")
            }
        problem.retry(after: retryAfter)
        problem.fields["reason"] = .string(reason.rawValue)
        problem.fields["state"] = .string(state.rawValue)
        return problem
    }
}

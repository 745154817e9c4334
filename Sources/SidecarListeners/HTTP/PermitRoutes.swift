internal import Interlock
internal import InterlockCore
internal import NIOHTTP1
internal import SidecarTelemetry

/// Permits: checks the breaker and the limits in one step, and reports the call's outcome.
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
        let loopCoordinator = coordinator.loopBound()
        let reference = try loopCoordinator.service(service).get()
        let trace = call.span.map {
            StepTrace(.permit, service, waitMilliseconds: body.waitMilliseconds, of: $0, coordinator: loopCoordinator)
        }
        let pending = loopCoordinator.acquirePermit(
            reference, cost: body.cost, subject: body.subject, waitMilliseconds: body.waitMilliseconds,
            now: loopCoordinator.now(),
            completion: Completion { [coordinator] _, decision in
                trace?.stepAnswered(decision)
                switch decision {
                case .granted(let permit, let state):
                    guard responder.isAwaited, !call.presence.hasDisconnected else { return false }
                    var response = HTTPResponse.object(
                        ["permit": .string(permit.description), "state": .string(state.rawValue)], .created)
                    // The call will not be made, so its outcome is ignored and its slot is freed.
                    response.ifUndelivered = {
                        coordinator.loopBound().reportPermit(
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
        responder.cancelOnDisconnect(pending, loopCoordinator)
    }

    private func report(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        let service = try call.name("service").text
        guard let permit = PermitID(call.parameter("id")) else {
            throw HTTPProblem(.invalid, "id: expected the 32 hexadecimal digits of a permit")
        }
        let fields = try call.fields("outcome", "latency_ms", "status", "retry_after_ms")
        let report = OutcomeReport(
            outcome: try fields.requiredChoice("outcome"),
            latencyMilliseconds: try fields.integer("latency_ms", in: HTTPLimits.millisecondsRange),
            status: try fields.integer("status", in: HTTPLimits.statusRange).map(Int.init),
            retryAfterMilliseconds: try fields.integer("retry_after_ms", in: HTTPLimits.millisecondsRange))
        coordinator.loopBound().reportPermit(
            service: service, permit: permit, report,
            completion: Completion { _, result in
                responder.respond { .object(["state": .string(try result.get().rawValue)]) }
            })
    }
}

extension HTTPProblem {
    /// Returns the problem of a call that gets no permit.
    /// - Parameter retryAfterMilliseconds: the time until a retry; -1 if it is unknown.
    static func refused(
        _ reason: PermitResult.Reason, _ state: BreakerSnapshot.State, service: String,
        retryAfter retryAfterMilliseconds: Int64
    ) -> HTTPProblem {
        var problem =
            switch reason {
            case .limited: limited(service: service, retryAfter: retryAfterMilliseconds)
            case .open: HTTPProblem(.open, "the breaker of the service \"\(service)\" is open; do not call it now")
            case .busy: HTTPProblem(.busy, "too many calls to the service \"\(service)\" are in progress; try again later")
            }
        problem.retry(after: retryAfterMilliseconds)
        problem.fields["reason"] = .string(reason.rawValue)
        problem.fields["state"] = .string(state.rawValue)
        return problem
    }
}

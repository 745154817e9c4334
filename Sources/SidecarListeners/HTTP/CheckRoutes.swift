internal import Interlock
internal import InterlockCore
internal import NIOHTTP1
internal import SidecarTelemetry

/// The check for other software: web servers and gateways send a subrequest to ask whether a call may pass (nginx's
/// `auth_request`, Traefik's ForwardAuth, HAProxy).
///
/// The check takes from the limits. It takes no trial permit from the breaker, because these callers do not report the
/// outcome of the call. So all calls pass while the breaker is half-open.
struct CheckRoutes {
    let coordinator: Coordinator

    private static let costField = "Interlock-Cost"

    var routes: [HTTPRoute] {
        [HTTPRoute(.GET, "/v1/check/{service}", servesHead: false, onEventLoop: check)]
    }

    private func check(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        let service = try call.name("service").text
        let query = try call.query("subject", "cost")
        let subject = try Self.singleValue(
            of: call.header(HTTPCall.subjectField), HTTPCall.subjectField, query.text("subject"), "subject"
        )
        .map { try ResourceName($0, parameter: "subject").text }
        let cost = try Self.cost(Self.singleValue(of: call.header(Self.costField), Self.costField, query.text("cost"), "cost"))
        let loopCoordinator = coordinator.loopBound()
        let reference = try loopCoordinator.service(service).get()
        let now = loopCoordinator.now()
        if let problem = Self.refusal(by: loopCoordinator, of: reference, named: service, now: now) { throw problem }
        guard loopCoordinator.hasLimits(reference) else {
            responder(.object(CallDecision.unlimited.fields))
            return
        }
        let trace = call.span.map { StepTrace(.take, service, waitMilliseconds: 0, of: $0, coordinator: loopCoordinator) }
        let completion = LimitRoutes.completion(responder, loopCoordinator, service: service, subject: subject, mayWait: false)
        _ = loopCoordinator.take(
            reference, cost: cost, subject: subject, waitMilliseconds: 0, now: now,
            completion: trace.map { completion.reported(to: $0.stepAnswered) } ?? completion)
    }

    /// Returns the problem of a call while the service's breaker is open; `nil` if the breaker lets the call pass.
    static func refusal(
        by coordinator: LoopBoundCoordinator, of reference: ServiceReference, named service: String, now: Instant
    ) -> HTTPProblem? {
        guard let (state, retryAfterMilliseconds) = coordinator.breakerRefusal(of: reference, now: now) else { return nil }
        var problem = HTTPProblem.refused(.open, state, service: service, retryAfter: retryAfterMilliseconds)
        problem.fields["cause"] = .string(coordinator.breakerCause(ofService: service))
        return problem
    }

    /// Returns a value that is in a header field or in the query, because some servers can set only one of them.
    private static func singleValue(of field: String?, _ fieldName: String, _ parameter: String?, _ name: String)
        throws(HTTPProblem)
        -> String?
    {
        guard field == nil || parameter == nil else {
            throw HTTPProblem(.invalid, "duplicate \(name): it is in \(fieldName) and in the query; remove one")
        }
        return field ?? parameter
    }

    /// Returns the cost that a parameter gives; 1 without the parameter.
    static func cost(_ text: String?) throws(HTTPProblem) -> Int64 {
        guard let text else { return 1 }
        guard let cost = Int64(text), LimitRequest.costRange.contains(cost) else {
            let range = "\(LimitRequest.costRange.lowerBound) to \(LimitRequest.costRange.upperBound)"
            throw HTTPProblem(.invalid, "cost: expected a whole number from \(range), got \"\(Excerpt(text))\"")
        }
        return cost
    }
}

internal import Interlock
internal import InterlockCore
internal import NIOHTTP1
internal import SidecarTelemetry

/// The check before a call that other software makes. Web servers and gateways send a subrequest to ask whether a call
/// may pass (nginx's `auth_request`, Traefik's ForwardAuth, HAProxy).
///
/// The check takes from the limits. It takes no trial permit from the breaker, because nobody reports the outcome of
/// the call: calls pass while the breaker is half-open.
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
        let calls = coordinator.callsOnEventLoop()
        let reference = try calls.service(service).get()
        let now = calls.now()
        if let problem = Self.refusal(by: calls, of: reference, named: service, now: now) { throw problem }
        guard calls.hasLimits(reference) else {
            let pass = CallDecision.unlimited
            responder(.object(pass.fields))
            return
        }
        let trace = call.span.map { StepTrace(.take, service, wait: 0, of: $0, calls: calls) }
        let completion = LimitRoutes.completion(responder, calls, service: service, subject: subject, mayWait: false)
        _ = calls.take(
            reference, cost: cost, subject: subject, waitMilliseconds: 0, now: now,
            completion: trace.map { completion.reported(to: $0.answered) } ?? completion)
    }

    /// Returns the problem to answer with while the service's breaker is open; `nil` if the breaker lets the call pass.
    static func refusal(
        by calls: CoordinatorCalls, of reference: ServiceReference, named service: String, now: Instant
    ) -> HTTPProblem? {
        guard let (state, retryAfter) = calls.breakerRefusal(of: reference, now: now) else { return nil }
        var problem = HTTPProblem.refused(.open, state, service: service, retryAfter: retryAfter)
        problem.fields["cause"] = .string(calls.breakerCause(ofService: service))
        return problem
    }

    /// Returns a value from a header field or from the query, because some servers can set only one of them.
    private static func singleValue(of field: String?, _ fieldName: String, _ parameter: String?, _ name: String)
        throws(HTTPProblem)
        -> String?
    {
        guard field == nil || parameter == nil else {
            throw HTTPProblem(.invalid, "duplicate \(name): it is in \(fieldName) and in the query; remove one")
        }
        return field ?? parameter
    }

    static func cost(_ text: String?) throws(HTTPProblem) -> Int64 {
        guard let text else { return 1 }
        guard let cost = Int64(text), LimitRequest.costs.contains(cost) else {
            let range = "\(LimitRequest.costs.lowerBound) to \(LimitRequest.costs.upperBound)"
            throw HTTPProblem(.invalid, "cost: expected a whole number from \(range), got \"\(Excerpt(text))\"")
        }
        return cost
    }
}

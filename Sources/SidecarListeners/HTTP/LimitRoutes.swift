internal import Interlock
internal import InterlockCore
internal import NIOHTTP1
internal import SidecarTelemetry

/// Rate limits: takes from them, and shows their state.
struct LimitRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.POST, "/v1/limits/{service}/take", onEventLoop: take),
            HTTPRoute(.GET, "/v1/limits/{service}", inTask: peek),
        ]
    }

    private func take(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        let service = try call.name("service").text
        let body = try CallBody(try call.fields(CallBody.fields))
        let loopCoordinator = coordinator.loopBound()
        let reference = try loopCoordinator.service(service).get()
        let trace = call.span.map {
            StepTrace(.take, service, waitMilliseconds: body.waitMilliseconds, of: $0, coordinator: loopCoordinator)
        }
        let completion = Self.completion(responder, loopCoordinator, service: service, subject: body.subject)
        let pending = loopCoordinator.take(
            reference, cost: body.cost, subject: body.subject, waitMilliseconds: body.waitMilliseconds,
            now: loopCoordinator.now(), completion: trace.map { completion.reported(to: $0.stepAnswered) } ?? completion)
        responder.cancelOnDisconnect(pending, loopCoordinator)
    }

    /// Returns a completion that responds to a take with the limit's state, or with a problem if the take is refused.
    /// - Parameter mayWait: whether the API offers a wait, which the problem then suggests.
    static func completion(
        _ responder: HTTPResponder, _ coordinator: LoopBoundCoordinator, service: String, subject: String?, mayWait: Bool = true
    ) -> Completion<TakeResult> {
        Completion { _, result in
            switch result {
            case .decided(let decision), .decidedBatch(let decision, _, _):
                let limits = coordinator.definition(ofService: service)?.limits ?? []
                return responder.respond {
                    try Self.response(
                        decision, limits, service: service, subject: subject, refusalIsProblem: true, mayWait: mayWait)
                }
            case .failed(let error): return responder.fail(error)
            }
        }
    }

    private func peek(_ call: HTTPCall) async throws -> HTTPResponse {
        let service = try call.name("service").text
        let subject = try call.query("subject").text("subject").map { try ResourceName($0, parameter: "subject").text }
        let states = try await coordinator.listLimits(service: service, subject: subject)
        let limits = await coordinator.definition(ofService: service)?.limits ?? []
        // If no limit binds, `peek` finds out why.
        guard let binding = LimitState.binding(of: states) else {
            let decision = try await coordinator.peek(service: service, subject: subject)
            return try Self.response(decision, limits, service: service, subject: subject, refusalIsProblem: false)
        }
        return try Self.response(
            binding.callDecision, limits, states: states, service: service, subject: subject, refusalIsProblem: false)
    }

    /// Returns the response that shows a decision.
    /// - Throws: `HTTPProblem` for a refusal if `refusalIsProblem` is `true`.
    private static func response(
        _ decision: CallDecision, _ limits: [LimitDefinition], states: [LimitState]? = nil, service: String,
        subject: String?, refusalIsProblem: Bool, mayWait: Bool = true
    ) throws -> HTTPResponse {
        let fields = RateLimitFields(decision, limits: limits, hasSubject: subject != nil)
        guard !decision.isAllowed, refusalIsProblem else {
            var response =
                if let states {
                    try HTTPResponse.json(
                        decision.object.merging(["limits": .array(states.map { .object($0.fields) })]) { own, _ in own })
                } else {
                    HTTPResponse.object(decision.fields)
                }
            fields.add(to: &response.headers)
            return response
        }
        throw HTTPProblem.limited(decision, fields, service: service, mayWait: mayWait)
    }
}

extension HTTPResponder {
    /// Cancels a waiting call when its client leaves, then calls `onCancel`.
    func cancelOnDisconnect(
        _ pending: PendingCall?, _ coordinator: LoopBoundCoordinator, then onCancel: @escaping () -> Void = {}
    ) {
        guard let pending, isAwaited else { return }
        onDisconnect { [self] in
            coordinator.cancel(pending)
            onCancel()
            fail(HTTPProblem.clientDisconnected)
        }
    }
}

/// The body of a request to a service's limits, or for a permit.
package struct CallBody: Sendable {
    package static let fields = ["cost", "subject", "wait_ms"]

    package var cost: Int64
    package var subject: String?
    /// The maximum wait, in milliseconds.
    package var waitMilliseconds: Int64

    package init(_ fields: JSONFields) throws {
        cost = try fields.integer("cost", in: LimitRequest.costRange) ?? 1
        subject = try fields.name("subject")
        waitMilliseconds = try fields.integer("wait_ms", in: HTTPLimits.millisecondsRange) ?? 0
    }
}

extension HTTPProblem {
    /// Returns the problem of a call that a limit refuses.
    /// - Parameters:
    ///   - retryAfterMilliseconds: the time until a retry.
    ///   - mayWait: whether to suggest a wait.
    static func limited(
        service: String, retryAfter retryAfterMilliseconds: Int64, mayWait: Bool = true
    ) -> HTTPProblem {
        let waitHint = mayWait ? ", or wait with wait_ms" : ""
        var problem = HTTPProblem(
            .limited,
            "a limit of the service \"\(service)\" is reached; try again in \(retryAfterMilliseconds) ms\(waitHint)")
        problem.retry(after: retryAfterMilliseconds)
        return problem
    }

    /// Returns the problem of a call that a limit refuses, with the state of that limit.
    static func limited(_ decision: CallDecision, _ fields: RateLimitFields, service: String, mayWait: Bool) -> HTTPProblem {
        var problem = limited(service: service, retryAfter: decision.reportedRetryAfterMilliseconds, mayWait: mayWait)
        problem.fields.merge(decision.object) { own, _ in own }
        fields.add(to: &problem.headers)
        return problem
    }

    /// Sets `retry_after_ms`, and `Retry-After` in whole seconds, rounded up and at least 1. Omits `Retry-After` if the
    /// time is negative, which means unknown.
    mutating func retry(after milliseconds: Int64) {
        fields["retry_after_ms"] = .integer(milliseconds)
        guard milliseconds >= 0 else { return }
        headers.replaceOrAdd(name: "Retry-After", value: "\(max(1, RateLimitFields.seconds(milliseconds)))")
    }
}

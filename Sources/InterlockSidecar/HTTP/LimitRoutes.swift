internal import HTTPTypes
internal import Interlock
internal import InterlockCore

/// Rate limits: take, and look.
struct LimitRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.post, "/v1/limits/{service}/take", answer: take),
            HTTPRoute(.get, "/v1/limits/{service}", answer: peek),
        ]
    }

    private func take(_ call: HTTPCall) async throws -> HTTPAnswer {
        let service = try call.name("service").text
        let body = try CallBody(try await call.fields(CallBody.fields))
        let decision = try await decide(call, wait: body.wait) { [coordinator] in
            try await coordinator.take(
                service: service, cost: body.cost, subject: body.subject, waitMilliseconds: body.wait)
        }
        return try await answer(decision, service: service, subject: body.subject, refusalIsProblem: true)
    }

    private func peek(_ call: HTTPCall) async throws -> HTTPAnswer {
        let service = try call.name("service").text
        let subject = try call.query("subject").text("subject").map { try ResourceName($0, what: "subject").text }
        let standings = try await coordinator.listLimits(service: service, subject: subject)
        // Says why there is none.
        guard let binding = LimitStanding.binding(of: standings) else {
            let decision = try await coordinator.peek(service: service, subject: subject)
            return try await answer(decision, service: service, subject: subject, refusalIsProblem: false)
        }
        return try await answer(
            binding.answer, standings: standings, service: service, subject: subject, refusalIsProblem: false)
    }

    /// A call that waits is given up when its client leaves.
    private func decide(
        _ call: HTTPCall, wait: Int64, _ operation: @escaping @Sendable () async throws -> LimitAnswer
    ) async throws -> LimitAnswer {
        guard wait > 0 else { return try await operation() }
        return try await call.peer().whilePresent(operation)
    }

    private func answer(
        _ decision: LimitAnswer, standings: [LimitStanding]? = nil, service: String, subject: String?, refusalIsProblem: Bool
    ) async throws -> HTTPAnswer {
        let limits = await coordinator.definition(ofService: service)?.limits ?? []
        let fields = RateLimitFields(decision, limits: limits, hasSubject: subject != nil)
        let reply = LimitReply(decision, standings: standings)
        guard !decision.isTaken, refusalIsProblem else {
            var answer = try HTTPAnswer.json(reply)
            fields.add(to: &answer.headers)
            return answer
        }
        var problem = HTTPProblem.limited(service: service, retryAfter: decision.retryAfter ?? 0)
        problem.members.merge(reply.members) { known, _ in known }
        fields.add(to: &problem.headers)
        throw problem
    }
}

/// What a call asks of a service's limits; of a permit as well.
package struct CallBody: Sendable {
    package static let fields = ["cost", "subject", "wait_ms"]

    package var cost: Int64
    package var subject: String?
    /// In milliseconds.
    package var wait: Int64

    package init(_ fields: JSONFields) throws {
        cost = try fields.integer("cost", in: LimitRequest.costs) ?? 1
        subject = try fields.name("subject")
        wait = try fields.integer("wait_ms", in: HTTPBounds.milliseconds) ?? 0
    }
}

extension HTTPProblem {
    /// - Parameter retryAfter: in milliseconds.
    static func limited(service: String, retryAfter: Int64) -> HTTPProblem {
        var problem = HTTPProblem(
            .limited,
            "a limit of the service \"\(service)\" is reached; try again in \(retryAfter) ms, or wait with wait_ms")
        problem.retry(after: retryAfter)
        return problem
    }

    /// Says when to come again, in whole seconds rounded up; not at all when nobody knows.
    mutating func retry(after milliseconds: Int64) {
        members["retry_after_ms"] = .integer(milliseconds)
        guard milliseconds >= 0 else { return }
        headers[.retryAfter] = "\(max(1, RateLimitFields.seconds(milliseconds)))"
    }
}

/// A limit's decision as JSON: of the window that binds.
struct LimitReply: Encodable {
    /// The same as members of a problem.
    let members: [String: JSONValue]

    init(_ decision: LimitAnswer, standings: [LimitStanding]? = nil) {
        var members = Self.members(decision)
        members["limits"] = standings.map { .list($0.map(Self.member)) }
        self.members = members
    }

    /// Where one limit stands.
    private static func member(_ standing: LimitStanding) -> JSONValue {
        let definition = standing.definition
        let own: [String: JSONValue] = [
            "algorithm": .text(definition.algorithm.name.rawValue),
            "window_ms": .integer(definition.windowMilliseconds),
            "per_subject": .flag(definition.isPerSubject),
            "shadow": .flag(definition.isShadow),
        ]
        return .object(own.merging(members(standing.answer)) { own, _ in own })
    }

    private static func members(_ decision: LimitAnswer) -> [String: JSONValue] {
        [
            "limited": .flag(!decision.isTaken),
            "limit": .integer(decision.limit),
            "remaining": .integer(decision.remaining),
            "retry_after_ms": .integer(decision.retryAfter ?? -1),
            "reset_after_ms": .integer(decision.resetAfter),
            "name": decision.limitName.map(JSONValue.text) ?? .null,
        ]
    }

    func encode(to encoder: any Encoder) throws {
        try members.encode(to: encoder)
    }
}

internal import HTTPTypes
internal import Interlock
internal import InterlockCore

/// Permits: breaker and limits in one step, and the outcome of the call.
struct PermitRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.post, "/v1/services/{service}/permits", answer: acquire),
            HTTPRoute(.post, "/v1/services/{service}/permits/{id}", answer: report),
        ]
    }

    private func acquire(_ call: HTTPCall) async throws -> HTTPAnswer {
        let service = try call.name("service").text
        let body = try CallBody(try await call.fields(CallBody.fields))
        let peer = try await call.peer()
        let decision = try await peer.whilePresent { [coordinator] in
            try await coordinator.acquirePermit(
                service: service, cost: body.cost, subject: body.subject, waitMilliseconds: body.wait)
        }
        switch decision {
        case .granted(let permit, let state):
            return try await granted(permit, state, service: service, peer)
        case .refused(let reason, let state, let retryAfter):
            throw HTTPProblem.refused(reason, state, service: service, retryAfter: retryAfter)
        case .failed(let error):
            throw error
        }
    }

    private func granted(
        _ permit: PermitID, _ state: BreakerSnapshot.State, service: String, _ peer: PeerPresence
    ) async throws -> HTTPAnswer {
        // A call that nobody will make says nothing of the service, and frees its place at once.
        let giveBack: @Sendable () async -> Void = { [coordinator] in
            _ = try? await coordinator.reportPermit(
                service: service, permit: permit, OutcomeReport(outcome: .ignore))
        }
        guard !peer.hasLeft else {
            await giveBack()
            throw HTTPProblem.clientHasLeft
        }
        var answer = try HTTPAnswer.json(PermitReply(permit: permit.description, state: state.rawValue), .created)
        answer.ifUndelivered = giveBack
        return answer
    }

    private func report(_ call: HTTPCall) async throws -> HTTPAnswer {
        let service = try call.name("service").text
        guard let permit = PermitID(call.parameters["id"] ?? "") else {
            throw HTTPProblem(.invalid, "id: expected the 32 hexadecimal digits of a permit")
        }
        let fields = try await call.fields("outcome", "latency_ms", "status", "retry_after_ms")
        let report = OutcomeReport(
            outcome: try fields.requiredWord("outcome"),
            latencyMilliseconds: try fields.integer("latency_ms", in: HTTPBounds.milliseconds),
            status: try fields.integer("status", in: HTTPBounds.statuses).map(Int.init),
            retryAfterMilliseconds: try fields.integer("retry_after_ms", in: HTTPBounds.milliseconds))
        let state = try await coordinator.reportPermit(service: service, permit: permit, report)
        return try .json(StateReply(state: state.rawValue))
    }
}

/// A permit as JSON: make the call, then report its outcome under this ID.
struct PermitReply: Encodable {
    var permit: String
    var state: String
}

/// A breaker's state after a report.
struct StateReply: Encodable {
    var state: String
}

extension HTTPProblem {
    /// - Parameter retryAfter: in milliseconds; -1: nobody knows.
    static func refused(
        _ reason: PermitAnswer.Reason, _ state: BreakerSnapshot.State, service: String, retryAfter: Int64
    ) -> HTTPProblem {
        var problem =
            switch reason {
            case .limited: limited(service: service, retryAfter: retryAfter)
            case .open: HTTPProblem(.open, "the breaker of the service \"\(service)\" is open; do not call it now")
            case .busy: HTTPProblem(.busy, "the service \"\(service)\" has no place for another call now; try again later")
            }
        problem.retry(after: retryAfter)
        problem.members["reason"] = .text(reason.rawValue)
        problem.members["state"] = .text(state.rawValue)
        return problem
    }
}

internal import HTTPTypes
internal import Interlock
internal import InterlockCore

/// Leased locks: take, renew, release, look, break.
struct LockRoutes {
    let coordinator: Coordinator

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.get, "/v1/locks", answer: list),
            HTTPRoute(.post, "/v1/locks/{name}", answer: acquire),
            HTTPRoute(.get, "/v1/locks/{name}", answer: inspect),
            HTTPRoute(.delete, "/v1/locks/{name}", answer: release),
            HTTPRoute(.post, "/v1/locks/{name}/renew", answer: renew),
            HTTPRoute(.post, "/v1/locks/{name}/break", for: .role(.admin), answer: breakLock),
        ]
    }

    private func acquire(_ call: HTTPCall) async throws -> HTTPAnswer {
        let name = try call.name("name")
        let fields = try await call.fields("ttl_ms", "wait_ms", "owner", "label")
        var request = LockRequest(name: name, ttl: try fields.requiredInteger("ttl_ms", in: HTTPBounds.ttl))
        request.wait = try fields.integer("wait_ms", in: HTTPBounds.milliseconds) ?? 0
        request.owner = try fields.name("owner")
        request.label = try fields.name("label")
        guard let lease = try await LeaseDelivery(coordinator: coordinator).acquire(request, for: try await call.peer()) else {
            throw HTTPProblem.held(name)
        }
        var answer = try HTTPAnswer.json(LeaseReply(lease), .created)
        if request.owner == nil {
            answer.ifUndelivered = { await LeaseDelivery(coordinator: coordinator).giveBack(lease, name) }
        }
        return answer
    }

    private func renew(_ call: HTTPCall) async throws -> HTTPAnswer {
        let name = try call.name("name")
        let fields = try await call.fields("token", "ttl_ms")
        let token = try fields.requiredText("token")
        let ttl = try fields.requiredInteger("ttl_ms", in: HTTPBounds.ttl)
        guard let valid = try await coordinator.renewLock(name, token: token, ttl: ttl) else { throw HTTPProblem.lost(name) }
        return try .json(RenewalReply(validMilliseconds: valid))
    }

    private func release(_ call: HTTPCall) async throws -> HTTPAnswer {
        let name = try call.name("name")
        guard let token = call.header(.leaseToken), !token.isEmpty else {
            throw HTTPProblem(.invalid, "the lease's token is missing; send it as Lease-Token: TOKEN")
        }
        guard try await coordinator.releaseLock(name, token: token) else { throw HTTPProblem.lost(name) }
        return .noContent
    }

    private func inspect(_ call: HTTPCall) async throws -> HTTPAnswer {
        let name = try call.name("name")
        guard let information = try await coordinator.inspectLock(name) else { throw Self.unknown(name) }
        return try .json(LockReply(information))
    }

    private func list(_ call: HTTPCall) async throws -> HTTPAnswer {
        let query = try call.query("cursor", "match", "count")
        let cursor = query.text("cursor") ?? "0"
        guard UInt64(cursor) != nil else {
            throw HTTPProblem(.invalid, "cursor: expected 0 or what the last step answered, got \"\(cursor.prefix(64))\"")
        }
        let page = try await coordinator.listLocks(
            cursor: cursor, matching: query.text("match") ?? "*",
            count: Int(try query.integer("count", in: 1...1000) ?? 100))
        return try .json(LockPageReply(cursor: page.cursor, names: page.names))
    }

    private func breakLock(_ call: HTTPCall) async throws -> HTTPAnswer {
        let name = try call.name("name")
        _ = try await call.fields()
        guard try await coordinator.breakLock(name, by: call.caller.name) else { throw Self.unknown(name) }
        return .noContent
    }

    private static func unknown(_ name: ResourceName) -> HTTPProblem {
        HTTPProblem(.unknownLock, "nobody holds the lock \"\(name)\" or waits for it")
    }
}

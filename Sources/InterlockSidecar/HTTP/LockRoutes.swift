internal import HTTPTypes
package import Interlock
package import InterlockCore

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
        let body = try LockBody(name, try await call.fields(LockBody.fields))
        let peer = try await call.peer()
        let delivery = LeaseDelivery(coordinator: coordinator)
        guard let leases = try await delivery.acquire(body, for: peer) else { throw body.refusal }
        let granted = GrantReply(leases, areTogether: body.others != nil)
        let owner = body.request.owner
        guard body.isLinked else {
            var answer = try HTTPAnswer.json(granted, .created)
            answer.ifUndelivered = { await delivery.giveBack(leases, of: owner) }
            return answer
        }
        do {
            let first = try ServerSentEvents.event("lease", granted)
            let linked = try await LinkedLeases(following: leases, of: peer, with: coordinator)
            return linked.answer(beginningWith: first, through: ServerSentEvents(call: call, peer: peer))
        } catch {
            await delivery.giveBack(leases, of: owner)
            throw error
        }
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
            throw HTTPProblem(.invalid, "cursor: expected 0 or what the last step answered, got \"\(Excerpt(cursor))\"")
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

/// What a request asks of locks: how they are held, which others are taken together with the one that its path names, and
/// whether the leases are tied to a stream of events.
package struct LockBody: Sendable {
    /// The lock of the path; of several, what is asked for each.
    package var request: LockRequest
    /// Taken together with it, all or none; `nil`: it is taken alone.
    package var others: [ResourceName]?
    var isLinked: Bool

    package static let fields = ["ttl_ms", "wait_ms", "owner", "label", "mode", "permits", "also", "linked"]

    private enum Mode: String, CaseIterable {
        case exclusive, shared
    }

    package init(_ name: ResourceName, _ fields: JSONFields) throws {
        request = LockRequest(name: name, ttl: try fields.requiredInteger("ttl_ms", in: HTTPBounds.ttl))
        request.wait = try fields.integer("wait_ms", in: HTTPBounds.milliseconds) ?? 0
        request.owner = try fields.name("owner")
        request.label = try fields.name("label")
        request.mode = try Self.mode(fields)
        others = try fields.names("also")
        isLinked = try fields.flag("linked") ?? false
    }

    /// Of another who has one of the locks.
    var refusal: HTTPProblem {
        others.map { HTTPProblem.held(oneOf: $0.count + 1) } ?? HTTPProblem.held(request.name)
    }

    private static func mode(_ fields: JSONFields) throws -> LockMode {
        let mode: Mode = try fields.word("mode") ?? .exclusive
        switch (mode, try fields.integer("permits", in: HTTPBounds.permits)) {
        case (.shared, .some):
            throw HTTPProblem(.invalid, "permits does not go together with mode shared: a lock is held in one way")
        case (.shared, nil): return .shared
        case (.exclusive, let count?): return .permits(Int(count))
        case (.exclusive, nil): return .exclusive
        }
    }
}

package import Interlock
package import InterlockCore
internal import NIOCore
internal import NIOHTTP1
internal import SidecarSettings

/// Leased locks: acquire, renew, release, inspect, break.
struct LockRoutes {
    let coordinator: Coordinator

    /// The maximum `count` of a page that shows the details of its locks.
    private static let maximumDetailedCount: Int64 = 200

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.GET, "/v1/locks", inTask: list),
            HTTPRoute(.POST, "/v1/locks/{name}", onEventLoop: acquire),
            HTTPRoute(.GET, "/v1/locks/{name}", inTask: inspect),
            HTTPRoute(.DELETE, "/v1/locks/{name}", onEventLoop: release),
            HTTPRoute(.POST, "/v1/locks/{name}/renew", onEventLoop: renew),
            HTTPRoute(.POST, "/v1/locks/{name}/break", for: .role(.admin), inTask: breakLock),
            HTTPRoute(.GET, "/v1/grants", isTraced: false, onEventLoop: listGrants),
        ]
    }

    private func acquire(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        let body = try LockBody(try call.name("name"), try call.fields(LockBody.fields))
        let delivery = LeaseDelivery(coordinator: coordinator)
        let owner = body.request.owner
        delivery.acquire(body, responder, for: call.span) { leases in
            let leaseFields = Lease.fields(leases, isJoint: body.others != nil)
            guard body.isLinked else { return responder(delivery.response(leaseFields, with: leases, of: owner)) }
            let eventLoop = coordinator.eventLoop
            let responder = NIOLoopBound(responder, eventLoop: eventLoop)
            Task { [coordinator] in
                do {
                    let leaseEvent = ServerSentEvents.event("lease", leaseFields)
                    let linked = try await LinkedLeases(following: leases, of: call.presence, with: coordinator)
                    let response = linked.response(beginningWith: leaseEvent, through: ServerSentEvents(call: call))
                    eventLoop.execute { responder.value(response) }
                } catch {
                    eventLoop.execute {
                        delivery.releaseUndelivered(leases, of: owner)
                        responder.value.fail(error)
                    }
                }
            }
            return true
        }
    }

    private func renew(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        let name = try call.name("name")
        let fields = try call.fields("token", "ttl_ms", "fence")
        let token = try fields.requiredText("token")
        let ttlMilliseconds = try fields.requiredInteger("ttl_ms", in: HTTPLimits.ttlMillisecondsRange)
        let fence = try fields.integer("fence", in: RequestLimits.fenceRange)
        coordinator.loopBound().renewLock(
            name, token: token, ttlMilliseconds: ttlMilliseconds, fence: fence,
            completion: Completion { _, result in
                switch result {
                case .renewed(let validMilliseconds): responder(.object(["valid_ms": .integer(validMilliseconds)]))
                case .lost: responder.fail(HTTPProblem.lost(name))
                case .failed(let error): responder.fail(error)
                }
            })
    }

    private func release(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        let name = try call.name("name")
        guard let token = call.header("Lease-Token"), !token.isEmpty else {
            throw HTTPProblem(.invalid, "the lease's token is missing; send it as Lease-Token: TOKEN")
        }
        let fence = try call.fence("Lease-Fence")
        coordinator.loopBound().releaseLock(
            name, token: token, fence: fence,
            completion: Completion { _, result in
                switch result {
                case .released: responder(.noContent)
                case .lost: responder.fail(HTTPProblem.lost(name))
                case .failed(let error): responder.fail(error)
                }
            })
    }

    private func inspect(_ call: HTTPCall) async throws -> HTTPResponse {
        let name = try call.name("name")
        guard let information = try await coordinator.inspectLock(name) else { throw Self.unknown(name) }
        return try .json(LockReply.fields(information))
    }

    private func listGrants(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        let name = try call.query("lock").text("lock").map { try ResourceName($0, parameter: "lock") }
        responder(try .json(GrantListReply.fields(coordinator.loopBound().grants(of: name))))
    }

    private func list(_ call: HTTPCall) async throws -> HTTPResponse {
        let query = try call.query("cursor", "match", "count", "details")
        let cursor = query.text("cursor") ?? "0"
        guard UInt64(cursor) != nil else {
            throw HTTPProblem(
                .invalid, "cursor: expected 0 or the cursor that the previous page returned, got \"\(Excerpt(cursor))\"")
        }
        let hasDetails = try query.flag("details")
        let page = try await coordinator.listLocks(
            cursor: cursor, matching: query.text("match") ?? "*",
            count: Int(try query.integer("count", in: 1...(hasDetails ? Self.maximumDetailedCount : 1000)) ?? 100))
        guard hasDetails else { return try .json(LockPageReply.fields(page, locks: nil)) }
        // Other software may have set a key with a name that is not valid here.
        let names = page.names.compactMap { try? ResourceName($0) }
        let locks = try await coordinator.inspectLocks(names).compactMap(\.self)
        return try .json(LockPageReply.fields(page, locks: locks))
    }

    private func breakLock(_ call: HTTPCall) async throws -> HTTPResponse {
        let name = try call.name("name")
        let fence = try call.fields("fence").integer("fence", in: RequestLimits.fenceRange)
        guard try await coordinator.breakLock(name, by: call.caller.name, fence: fence) else {
            throw fence.map { HTTPProblem.lost(name, fence: $0) } ?? Self.unknown(name)
        }
        return .noContent
    }

    private static func unknown(_ name: ResourceName) -> HTTPProblem {
        HTTPProblem(.unknownLock, "nobody holds the lock \"\(name)\" or waits for it")
    }
}

/// The body of a lock request: how to acquire the lock in the path, the other locks to acquire together with it, and
/// whether the leases are linked to an event stream.
package struct LockBody: Sendable {
    /// The request for the lock in the path, and the template for the others.
    package var request: LockRequest
    /// The other locks, acquired together with this one or not at all; `nil` for a single lock.
    package var others: [ResourceName]?
    var isLinked: Bool

    package static let fields = ["ttl_ms", "wait_ms", "owner", "label", "mode", "permits", "also", "linked"]

    private enum Mode: String, CaseIterable {
        case exclusive, shared
    }

    package init(_ name: ResourceName, _ fields: JSONFields) throws {
        request = LockRequest(
            name: name, ttlMilliseconds: try fields.requiredInteger("ttl_ms", in: HTTPLimits.ttlMillisecondsRange))
        request.waitMilliseconds = try fields.integer("wait_ms", in: HTTPLimits.millisecondsRange) ?? 0
        request.owner = try fields.name("owner")
        request.label = try fields.name("label")
        request.mode = try Self.mode(fields)
        others = try fields.names("also")
        isLinked = try fields.flag("linked") ?? false
    }

    /// The problem of the request if another client holds one of the locks.
    var refusal: HTTPProblem {
        others.map { HTTPProblem.held(oneOf: $0.count + 1) } ?? HTTPProblem.held(request.name)
    }

    private static func mode(_ fields: JSONFields) throws -> LockMode {
        let mode: Mode = try fields.choice("mode") ?? .exclusive
        switch (mode, try fields.integer("permits", in: HTTPLimits.permitCountRange)) {
        case (.shared, .some):
            throw HTTPProblem(.invalid, "permits cannot be combined with mode shared")
        case (.shared, nil): return .shared
        case (.exclusive, let count?): return .permits(Int(count))
        case (.exclusive, nil): return .exclusive
        }
    }
}

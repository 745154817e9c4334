import FoundationEssentials
import RedisClient

/// A response that the HTTP API does not document.
struct UndocumentedResponse: Error {
    var reason: String
}

extension HTTPCommand {
    /// Converts the response to the reply that the RESP API would have given.
    func reply(to response: HTTPWireResponse) throws(UndocumentedResponse) -> RedisReply {
        guard response.informational.isEmpty else {
            throw UndocumentedResponse(reason: "unrequested informational responses")
        }
        switch (kind, response.status) {
        case (.acquire(let lock), 201): return try Self.json(LeaseBody.self, response).reply(of: lock)
        case (.acquireAll(let locks), 201): return try Self.json(LeasesBody.self, response).reply(of: locks)
        case (.renew, 200): return .integer(try Self.json(RenewedBody.self, response).valid_ms)
        case (.release, 204):
            guard response.body.isEmpty else {
                throw UndocumentedResponse(reason: "an answer without content has a body")
            }
            return .integer(1)
        case (.grants, 200):
            _ = try Self.json(GrantsBody.self, response)
            return .array([])
        case (.take, 200): return try Self.json(TakenBody.self, response).reply(isLimited: false, response)
        case (.permit, 201):
            let body = try Self.json(PermitBody.self, response)
            return .array([.integer(1), Self.bulk(body.permit), Self.bulk(body.state), .integer(-1)])
        case (.report, 200): return Self.bulk(try Self.json(StateBody.self, response).state)
        case (.ping(let word), 200):
            guard try Self.json(StatusBody.self, response).status == "alive" else {
                throw UndocumentedResponse(reason: "it is not alive")
            }
            return Self.bulk(word)
        case (_, 400...): return try problem(response)
        default: throw UndocumentedResponse(reason: "unexpected status")
        }
    }

    private func problem(_ response: HTTPWireResponse) throws(UndocumentedResponse) -> RedisReply {
        let body = try Self.json(ProblemBody.self, response, as: "application/problem+json")
        try body.check(response)
        switch (kind, body.code) {
        case (.acquire, "held"), (.acquireAll, "held"), (.renew, "lost"): return .null
        case (.release, "lost"): return .integer(0)
        case (.take, "limited"):
            return try Self.json(TakenBody.self, response, as: "application/problem+json").reply(
                isLimited: true, response)
        case (.permit, "limited"), (.permit, "open"), (.permit, "busy"):
            guard let state = body.state, let retryAfterMilliseconds = body.retry_after_ms, body.reason == body.code
            else {
                throw UndocumentedResponse(reason: "a refused permit has no reason, state or retry_after_ms")
            }
            return .array([.integer(0), Self.bulk(body.code), Self.bulk(state), .integer(retryAfterMilliseconds)])
        default: return try body.error
        }
    }

    fileprivate static func bulk(_ text: String) -> RedisReply { .bulk(Array(text.utf8)) }

    private static func json<Body: Decodable>(
        _ type: Body.Type, _ response: HTTPWireResponse, as mediaType: String = "application/json"
    ) throws(UndocumentedResponse) -> Body {
        guard response["content-type"] == mediaType else {
            throw UndocumentedResponse(
                reason: "its Content-Type is \(response["content-type"] ?? "missing"), not \(mediaType)")
        }
        do {
            return try JSONDecoder().decode(type, from: Data(response.body))
        } catch {
            throw UndocumentedResponse(reason: "its body is not a \(type)")
        }
    }
}

// The bodies of responses, with the documented fields.

private struct LeaseBody: Decodable {
    var name: String
    var token: String
    var fence: Int64
    var valid_ms: Int64

    func reply(of lock: String) throws(UndocumentedResponse) -> RedisReply {
        guard name == lock else { throw UndocumentedResponse(reason: "it grants another lock") }
        return .array([HTTPCommand.bulk(token), .integer(fence), .integer(valid_ms)])
    }
}

private struct LeasesBody: Decodable {
    var leases: [LeaseBody]

    func reply(of locks: [String]) throws(UndocumentedResponse) -> RedisReply {
        guard leases.map(\.name) == locks else { throw UndocumentedResponse(reason: "it grants other locks") }
        return .array(
            leases.map {
                .array([HTTPCommand.bulk($0.name), HTTPCommand.bulk($0.token), .integer($0.fence), .integer($0.valid_ms)])
            })
    }
}

private struct RenewedBody: Decodable {
    var valid_ms: Int64
}

private struct GrantsBody: Decodable {
    struct Grant: Decodable {
        var name: String
        var mode: String
        var fence: Int64
        var granted_ms: Int64
        var waited_ms: Int64
    }

    var grants: [Grant]
}

private struct TakenBody: Decodable {
    var limit: Int64
    var limited: Bool
    var name: String?
    var remaining: Int64
    var reset_after_ms: Int64
    var retry_after_ms: Int64

    func reply(isLimited: Bool, _ response: HTTPWireResponse) throws(UndocumentedResponse) -> RedisReply {
        guard limited == isLimited else { throw UndocumentedResponse(reason: "limited contradicts the status") }
        if let name {
            guard response["ratelimit"]?.hasPrefix("\"\(name)\";r=\(max(0, remaining));t=") ?? false else {
                throw UndocumentedResponse(reason: "RateLimit is \(response["ratelimit"] ?? "missing")")
            }
            // The policy names the fleet-wide limit, even while a sidecar without Redis enforces only its local quota.
            guard response["ratelimit-policy"]?.contains("\"\(name)\";q=") ?? false else {
                throw UndocumentedResponse(reason: "RateLimit-Policy is \(response["ratelimit-policy"] ?? "missing")")
            }
        }
        return .array([
            .integer(isLimited ? 1 : 0), .integer(limit), .integer(remaining), .integer(retry_after_ms), .integer(reset_after_ms),
        ])
    }
}

private struct PermitBody: Decodable {
    var permit: String
    var state: String
}

private struct StateBody: Decodable {
    var state: String
}

private struct StatusBody: Decodable {
    var status: String
}

/// A problem (RFC 9457), with the further members of a refused permit.
private struct ProblemBody: Decodable {
    var code: String
    var status: Int
    var type: String
    var title: String
    var detail: String
    var reason: String?
    var state: String?
    var retry_after_ms: Int64?

    /// Checks the members that all problems have, and the header field `Retry-After`.
    func check(_ response: HTTPWireResponse) throws(UndocumentedResponse) {
        guard status == response.status, status == documentedStatus else {
            throw UndocumentedResponse(reason: "the status of \(code) is \(status)")
        }
        guard type == "urn:interlock:error:\(code)", !title.isEmpty, !detail.isEmpty else {
            throw UndocumentedResponse(reason: "its type is \(type), its title \(title.debugDescription)")
        }
        guard response["retry-after"] == documentedRetryAfter else {
            throw UndocumentedResponse(reason: "its Retry-After is \(response["retry-after"] ?? "missing")")
        }
    }

    /// The documented status of a problem with this code.
    private var documentedStatus: Int? {
        switch code {
        case "invalid": 400
        case "unknown_service": 404
        case "held": 409
        case "lost": 410
        case "limited": 429
        case "internal": 500
        case "open", "busy", "unavailable", "unreplicated": 503
        default: nil
        }
    }

    /// The documented value of `Retry-After`, in seconds.
    private var documentedRetryAfter: String? {
        switch code {
        case "unavailable", "unreplicated": return "1"
        case "limited", "open", "busy":
            guard let retry_after_ms, retry_after_ms >= 0 else { return nil }
            return "\(max(1, (retry_after_ms + 999) / 1000))"
        default: return nil
        }
    }

    /// The corresponding error of the RESP API.
    var error: RedisReply {
        get throws(UndocumentedResponse) {
            let word =
                switch code {
                case "invalid": "INVALID"
                case "unknown_service": "UNKNOWN"
                case "unavailable": "UNAVAILABLE"
                case "unreplicated": "UNREPLICATED"
                case "internal": "ERR"
                default: throw UndocumentedResponse(reason: "unexpected problem \(code)")
                }
            return .error(RedisError(.server(ServerCondition(rawValue: word)), "\(word) \(detail)"))
        }
    }
}

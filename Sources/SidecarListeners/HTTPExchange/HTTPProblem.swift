internal import Interlock
package import InterlockCore
package import NIOHTTP1

/// An error in the form that clients receive: `application/problem+json` (RFC 9457).
package struct HTTPProblem: Error, Sendable {
    /// The code that a program switches on. A held lock, a lost lease and an unreachable Redis always have different
    /// codes.
    package enum Code: String, CaseIterable, Sendable {
        case invalid
        case unauthenticated
        case forbidden
        case foreignOrigin = "foreign_origin"
        case misdirected
        case unknownPath = "unknown_path"
        case unknownLock = "unknown_lock"
        case unknownService = "unknown_service"
        case noURL = "no_url"
        case methodNotAllowed = "method_not_allowed"
        case held
        case lost
        case tooLarge = "too_large"
        case fieldsTooLarge = "fields_too_large"
        case notImplemented = "not_implemented"
        case limited
        case open
        case busy
        case unavailable
        case unreplicated
        case upstreamFailed = "upstream_failed"
        case upstreamTimeout = "upstream_timeout"
        case cancelled
        case `internal`
    }

    static let mediaType = "application/problem+json"

    package var code: Code
    /// An explanation for people: what was requested, what was wrong, and what to do.
    package var detail: String
    var headers = HTTPHeaders()
    /// The additional members of the JSON object.
    package var fields: [String: JSONValue] = [:]

    package init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    package var status: HTTPResponseStatus { code.status }
}

extension HTTPProblem: Encodable {
    /// The JSON object that is sent.
    package var object: [String: JSONValue] {
        var object = fields
        object["type"] = .string("urn:interlock:error:\(code.rawValue)")
        object["title"] = .string(code.title)
        object["status"] = .integer(Int64(status.code))
        object["detail"] = .string(detail)
        object["code"] = .string(code.rawValue)
        return object
    }

    /// The members of `object`, in the order in which they are written.
    var orderedFields: [(key: String, value: JSONValue)] { object.sorted { $0.key < $1.key } }

    package func encode(to encoder: any Encoder) throws { try object.encode(to: encoder) }
}

extension HTTPProblem.Code {
    var status: HTTPResponseStatus {
        switch self {
        case .invalid: .badRequest
        case .unauthenticated: .unauthorized
        case .forbidden, .foreignOrigin: .forbidden
        case .misdirected: .misdirectedRequest
        case .unknownPath, .unknownLock, .unknownService, .noURL: .notFound
        case .methodNotAllowed: .methodNotAllowed
        case .held: .conflict
        case .lost: .gone
        case .tooLarge: .payloadTooLarge
        case .fieldsTooLarge: .requestHeaderFieldsTooLarge
        case .notImplemented: .notImplemented
        case .limited: .tooManyRequests
        case .open, .busy, .unavailable, .unreplicated, .cancelled: .serviceUnavailable
        case .upstreamFailed: .badGateway
        case .upstreamTimeout: .gatewayTimeout
        case .internal: .internalServerError
        }
    }

    /// The title, which is the same for every occurrence of a problem (RFC 9457).
    var title: String {
        switch self {
        case .invalid: "The request is not valid"
        case .unauthenticated: "A valid API key is required"
        case .forbidden: "The API key's role is not sufficient"
        case .foreignOrigin: "Requests from other sites are refused"
        case .misdirected: "This sidecar does not serve this host"
        case .unknownPath: "There is nothing at this path"
        case .unknownLock: "Nobody holds this lock or waits for it"
        case .unknownService: "No such service is configured"
        case .noURL: "The service has no URL"
        case .methodNotAllowed: "The path does not support this method"
        case .held: "The lock is held"
        case .lost: "The lease is lost"
        case .tooLarge: "The body is too large"
        case .fieldsTooLarge: "The header fields are too large"
        case .notImplemented: "The request needs something that is not supported"
        case .limited: "The limit is reached"
        case .open: "The breaker is open"
        case .busy: "Too many calls are in progress"
        case .unavailable: "Redis or this sidecar cannot serve the call"
        case .unreplicated: "Too few replicas confirmed the lease"
        case .upstreamFailed: "The call to the service failed"
        case .upstreamTimeout: "The service did not answer in time"
        case .cancelled: "The call was cancelled"
        case .internal: "Redis answered with an error"
        }
    }
}

/// Problems that several types report.
extension HTTPProblem {
    static let noSuchPath = HTTPProblem(
        .unknownPath, "no such path; see /openapi.yaml for all paths, and write a \"/\" within a name as %2F")

    static let notAuthenticated = notAuthenticated("send an API key as X-Api-Key: KEY or Authorization: Bearer KEY")

    static let unknownKey = notAuthenticated("unknown API key; send one of the keys in auth.keys")

    static let keyRemoved = notAuthenticated("the API key was removed while the request was open; send another one")

    static func notAuthenticated(_ detail: String) -> HTTPProblem {
        var problem = HTTPProblem(.unauthenticated, detail)
        problem.headers.add(name: "WWW-Authenticate", value: "Bearer realm=\"interlock\"")
        return problem
    }

    static let fieldsTooLarge = HTTPProblem(
        .fieldsTooLarge, "the request's header fields are too large; send fewer or shorter ones")

    static func methodNotAllowed(_ method: HTTPMethod, allowed: [String]) -> HTTPProblem {
        let list = allowed.joined(separator: ", ")
        let expected = ConfigurationText.alternatives(allowed)
        var problem = HTTPProblem(.methodNotAllowed, "this path does not support \(method.rawValue); use \(expected)")
        problem.headers.add(name: "Allow", value: list)
        return problem
    }

    static let listenerIsFull = HTTPProblem(
        .unavailable,
        "listen.max_connections is reached; only /healthz, /readyz and /metrics are served until a connection closes")

    static func held(_ name: ResourceName) -> HTTPProblem {
        HTTPProblem(.held, "the lock \"\(name)\" is already held; try again later, or wait for it with wait_ms")
    }

    static func held(oneOf count: Int) -> HTTPProblem {
        HTTPProblem(
            .held,
            "one of the \(count) locks is already held, so none was acquired; try again later, or wait for them with wait_ms")
    }

    static func lost(_ name: ResourceName) -> HTTPProblem {
        HTTPProblem(.lost, "the lock \"\(name)\" is not held by this token: its lease has ended, or the lock was broken")
    }

    static func lost(_ name: ResourceName, fence: Int64) -> HTTPProblem {
        HTTPProblem(.lost, "the lock \"\(name)\" is no longer held with the fence \(fence); check who holds it now")
    }

    package static let clientDisconnected = HTTPProblem(
        .cancelled, "the client closed its side of the connection before the response; nothing is held for it")

    /// Converts the coordinator's error.
    package init(_ error: InterlockError) {
        let code: Code =
            switch error.code {
            case .invalid: .invalid
            case .unavailable: .unavailable
            case .unreplicated: .unreplicated
            case .unknownService: .unknownService
            default: .internal
            }
        self.init(code, error.message)
        if code == .unavailable || code == .unreplicated { headers.replaceOrAdd(name: "Retry-After", value: "1") }
    }
}

extension HTTPProblem {
    /// Creates the problem of a request that cannot be read. The detail does not expose the names of libraries and
    /// their source files, unlike the error's own description.
    init(malformed error: any Error, _ limits: NIOHTTPDecoderLimitConfiguration) {
        if case .headerOverflow? = error as? HTTPParserError {
            self.init(
                .fieldsTooLarge,
                "a request can have at most \(limits.maxHeaderFieldCount) header fields, \(limits.maxHeaderFieldSize) bytes each and "
                    + "\(limits.maxHeaderListSize) bytes in total")
            return
        }
        let reason =
            switch error as? HTTPParserError {
            case .invalidMethod: "its method is unknown or malformed"
            case .invalidURL: "its target is malformed"
            case .invalidVersion: "its version is not HTTP/1.0 or HTTP/1.1"
            case .invalidHeaderToken: "a field contains a character that is not allowed there"
            case .invalidContentLength, .unexpectedContentLength:
                "its Content-Length is malformed, or sent with a chunked body"
            case .invalidChunkSize: "the size of a chunk is malformed"
            case .invalidEOFState: "it ended early"
            case .none: "a field or pseudo-field is missing, repeated or malformed"
            default: "it does not follow the grammar of HTTP/1.1"
            }
        self.init(.invalid, "this is not a valid HTTP request: \(reason)")
    }
}

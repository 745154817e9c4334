package import HTTPTypes

/// An error as its receiver sees it: `application/problem+json` (RFC 9457).
package struct HTTPProblem: Error, Sendable {
    /// What a program switches on. Held, lost and unavailable are never the same.
    package enum Code: String, CaseIterable, Sendable {
        case invalid
        case unauthenticated
        case forbidden
        case foreignOrigin = "foreign_origin"
        case misdirected
        case unknownPath = "unknown_path"
        case unknownLock = "unknown_lock"
        case unknownService = "unknown_service"
        case methodNotAllowed = "method_not_allowed"
        case held
        case lost
        case tooLarge = "too_large"
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
    /// What was asked, what was wrong, what to do.
    package var detail: String
    var headers = HTTPFields()
    /// Further members of the JSON object.
    var members: [String: JSONValue] = [:]

    init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    package var status: HTTPResponse.Status { code.status }
}

extension HTTPProblem: Encodable {
    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        for (name, value) in members { try container.encode(value, forKey: Key(stringValue: name)) }
        try container.encode("urn:interlock:error:\(code.rawValue)", forKey: Key(stringValue: "type"))
        try container.encode(code.title, forKey: Key(stringValue: "title"))
        try container.encode(status.code, forKey: Key(stringValue: "status"))
        try container.encode(detail, forKey: Key(stringValue: "detail"))
        try container.encode(code.rawValue, forKey: Key(stringValue: "code"))
    }
}

extension HTTPProblem.Code {
    var status: HTTPResponse.Status {
        switch self {
        case .invalid: .badRequest
        case .unauthenticated: .unauthorized
        case .forbidden, .foreignOrigin: .forbidden
        case .misdirected: .misdirectedRequest
        case .unknownPath, .unknownLock, .unknownService: .notFound
        case .methodNotAllowed: .methodNotAllowed
        case .held: .conflict
        case .lost: .gone
        case .tooLarge: .contentTooLarge
        case .limited: .tooManyRequests
        case .open, .busy, .unavailable, .unreplicated, .cancelled: .serviceUnavailable
        case .upstreamFailed: .badGateway
        case .upstreamTimeout: .gatewayTimeout
        case .internal: .internalServerError
        }
    }

    /// The same for every occurrence, as RFC 9457 wants it.
    var title: String {
        switch self {
        case .invalid: "The request is not valid"
        case .unauthenticated: "An API key is needed"
        case .forbidden: "The API key's role does not suffice"
        case .foreignOrigin: "Requests from other sites are refused"
        case .misdirected: "This host is not served here"
        case .unknownPath: "There is nothing at this path"
        case .unknownLock: "Nobody holds this lock or waits for it"
        case .unknownService: "No such service is configured"
        case .methodNotAllowed: "The path does not take this method"
        case .held: "The lock is held"
        case .lost: "The lease is lost"
        case .tooLarge: "The body is too large"
        case .limited: "The limit is reached"
        case .open: "The breaker is open"
        case .busy: "Too many calls are under way"
        case .unavailable: "Redis cannot be reached or cannot serve"
        case .unreplicated: "Too few replicas have the lease"
        case .upstreamFailed: "The service could not be called"
        case .upstreamTimeout: "The service did not answer in time"
        case .cancelled: "The call was given up"
        case .internal: "Redis answered with an error"
        }
    }
}

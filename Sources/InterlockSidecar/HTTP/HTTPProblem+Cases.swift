internal import HTTPTypes
internal import Interlock
internal import InterlockCore

/// The problems that more than one place meets.
extension HTTPProblem {
    static let noSuchPath = HTTPProblem(
        .unknownPath, "the path is not one of those in /openapi.yaml; a \"/\" within a name is written %2F")

    static let notAuthenticated = notAuthenticated("show an API key, as X-Api-Key: KEY or Authorization: Bearer KEY")

    static func notAuthenticated(_ detail: String) -> HTTPProblem {
        var problem = HTTPProblem(.unauthenticated, detail)
        problem.headers[.wwwAuthenticate] = "Bearer realm=\"interlock\""
        return problem
    }

    static func methodNotAllowed(_ method: HTTPRequest.Method, allowed: [String]) -> HTTPProblem {
        let list = allowed.joined(separator: ", ")
        var problem = HTTPProblem(.methodNotAllowed, "this path takes \(list), not \(method.rawValue)")
        problem.headers[.allow] = list
        return problem
    }

    static let doorIsFull = HTTPProblem(
        .unavailable,
        "listen.max_connections connections are open; those that are kept beyond tell only /healthz, /readyz and /metrics")

    static func held(_ name: ResourceName) -> HTTPProblem {
        HTTPProblem(.held, "the lock \"\(name)\" is held by another; try again later, or wait for it with wait_ms")
    }

    static func held(oneOf count: Int) -> HTTPProblem {
        HTTPProblem(
            .held,
            "one of the \(count) locks is held by another, and none is taken; try again later, or wait for them with wait_ms")
    }

    static func lost(_ name: ResourceName) -> HTTPProblem {
        HTTPProblem(.lost, "the lock \"\(name)\" is not held by this token: its lease has ended or was taken away")
    }

    static let clientHasLeft = HTTPProblem(
        .cancelled, "the client closed its side of the connection before the answer; nothing is held for it")

    /// The coordinator's error in this door's words.
    init(_ error: InterlockError) {
        let code: Code =
            switch error.code {
            case .invalid: .invalid
            case .unavailable: .unavailable
            case .unreplicated: .unreplicated
            case .unknownService: .unknownService
            case .cancelled: .cancelled
            case .other: .internal
            }
        self.init(code, code == .unknownService ? "no such service is configured; see GET /v1/services" : error.message)
        if code == .unavailable || code == .unreplicated { headers[.retryAfter] = "1" }
    }
}

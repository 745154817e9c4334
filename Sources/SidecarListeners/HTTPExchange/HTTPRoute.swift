package import NIOHTTP1
package import SidecarSettings

/// One method on one path: its admission rule and its handler.
package struct HTTPRoute: Sendable {
    /// The callers that a route admits.
    package enum Admission: Sendable, Equatable {
        /// Everybody, even without a key.
        case anyone
        /// A caller with this role; everybody if no keys are configured.
        case role(APIKey.Role)
        /// A caller with a key; nobody if no keys are configured.
        case keyHolder
        /// A caller with the role `use` that shows its key in `X-Api-Key`, because `Authorization` is meant for the
        /// upstream.
        case upstreamCaller
    }

    /// Creates the relay for one request. `hasBody` is `true` if something follows the request's head.
    package typealias Relay = @Sendable (_ call: HTTPCall, _ hasBody: Bool, _ reply: HTTPReply) throws -> any HTTPRelay

    /// The producer of the answer.
    enum Handler: Sendable {
        /// Answers on the event loop, immediately or later.
        case reply(@Sendable (HTTPCall, HTTPReply) throws -> Void)
        /// Answers in a separate task, for rare requests.
        case answer(@Sendable (HTTPCall) async throws -> HTTPAnswer)
        /// Passes the request to another server. The body is read as it arrives, whatever its size.
        case relay(Relay)
    }

    /// The method; `nil` for every method.
    let method: HTTPMethod?
    /// The path, with the names of its variable segments in braces, as in the OpenAPI description.
    let path: String
    let admission: Admission
    /// Whether `HEAD` is answered as well, for a `GET` that changes nothing and ends.
    let answersHead: Bool
    /// Whether the path's last variable matches zero or more segments.
    let hasTail: Bool
    /// Whether requests are traced. Frequent requests that make a decision are.
    let isTraced: Bool
    /// Whether the route is also served in reserve slots, when all others are taken.
    let isServedWhenFull: Bool
    let handler: Handler

    private init(
        _ method: HTTPMethod?, _ path: String, _ admission: Admission, answersHead: Bool, hasTail: Bool = false,
        isTraced: Bool = false, isServedWhenFull: Bool = false, _ handler: Handler
    ) {
        self.method = method
        self.path = path
        self.admission = admission
        self.answersHead = answersHead
        self.hasTail = hasTail
        self.isTraced = isTraced
        self.isServedWhenFull = isServedWhenFull
        self.handler = handler
    }

    init(
        _ method: HTTPMethod, _ path: String, for admission: Admission = .role(.use), answersHead: Bool? = nil,
        isServedWhenFull: Bool = false, answer: @escaping @Sendable (HTTPCall) async throws -> HTTPAnswer
    ) {
        self.init(
            method, path, admission, answersHead: answersHead ?? (method == .GET), isServedWhenFull: isServedWhenFull,
            .answer(answer))
    }

    /// - Parameter reply: answers on the event loop, or throws the problem.
    package init(
        _ method: HTTPMethod, _ path: String, for admission: Admission = .role(.use), answersHead: Bool? = nil,
        isTraced: Bool = true, isServedWhenFull: Bool = false, reply: @escaping @Sendable (HTTPCall, HTTPReply) throws -> Void
    ) {
        self.init(
            method, path, admission, answersHead: answersHead ?? (method == .GET), isTraced: isTraced,
            isServedWhenFull: isServedWhenFull, .reply(reply))
    }

    /// Creates a route that passes every request at or below a path to another server, whatever its method.
    /// - Parameter tail: the name of the rest of the path in the OpenAPI description.
    package init(relayedBelow path: String, _ tail: String, relay: @escaping Relay) {
        self.init(nil, "\(path)/{\(tail)}", .upstreamCaller, answersHead: false, hasTail: true, isTraced: true, .relay(relay))
    }
}

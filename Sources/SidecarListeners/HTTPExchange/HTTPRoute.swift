package import NIOHTTP1
package import SidecarSettings

/// One method on one path: its admission rule and its handler.
package struct HTTPRoute: Sendable {
    /// The callers that a route admits.
    package enum Admission: Sendable, Equatable {
        /// Every caller, even without a key.
        case anyone
        /// A caller whose key has this role; every caller if no keys are configured.
        case role(APIKey.Role)
        /// A caller with a key; no caller if no keys are configured.
        case keyHolder
        /// A caller that presents its key in `X-Api-Key`, because `Authorization` is meant for the upstream; every
        /// caller if no keys are configured.
        case upstreamCaller
    }

    /// Creates the relay for one request. `hasBody` is `true` if a body follows the request's head.
    package typealias Relay = @Sendable (_ call: HTTPCall, _ hasBody: Bool, _ responder: HTTPResponder) throws -> any HTTPRelay

    /// The producer of the response.
    enum Handler: Sendable {
        /// Responds on the event loop, immediately or later.
        case onEventLoop(@Sendable (HTTPCall, HTTPResponder) throws -> Void)
        /// Responds in a separate task, for rare requests.
        case inTask(@Sendable (HTTPCall) async throws -> HTTPResponse)
        /// Passes the request to another server. The body is read as it arrives, whatever its size.
        case relay(Relay)
    }

    /// The method; `nil` for every method.
    let method: HTTPMethod?
    /// The path, with the names of its variable segments in braces, as in the OpenAPI description.
    let path: String
    let admission: Admission
    /// Whether `HEAD` is served too, as for a `GET` without side effects whose response ends.
    let servesHead: Bool
    /// Whether the path's last variable matches zero or more segments.
    let hasTail: Bool
    /// Whether requests are traced, as for frequent requests that make a decision.
    let isTraced: Bool
    /// Whether the route is also served in reserve slots, when all ordinary slots are taken.
    let isServedWhenFull: Bool
    let handler: Handler

    private init(
        _ method: HTTPMethod?, _ path: String, _ admission: Admission, servesHead: Bool, hasTail: Bool = false,
        isTraced: Bool = false, isServedWhenFull: Bool = false, _ handler: Handler
    ) {
        self.method = method
        self.path = path
        self.admission = admission
        self.servesHead = servesHead
        self.hasTail = hasTail
        self.isTraced = isTraced
        self.isServedWhenFull = isServedWhenFull
        self.handler = handler
    }

    /// Creates a route whose requests are handled in a task.
    init(
        _ method: HTTPMethod, _ path: String, for admission: Admission = .role(.use), servesHead: Bool? = nil,
        isServedWhenFull: Bool = false, inTask handle: @escaping @Sendable (HTTPCall) async throws -> HTTPResponse
    ) {
        self.init(
            method, path, admission, servesHead: servesHead ?? (method == .GET), isServedWhenFull: isServedWhenFull,
            .inTask(handle))
    }

    /// Creates a route whose requests are handled on the event loop.
    /// - Parameter handle: responds, immediately or later, or throws the problem.
    package init(
        _ method: HTTPMethod, _ path: String, for admission: Admission = .role(.use), servesHead: Bool? = nil,
        isTraced: Bool = true, isServedWhenFull: Bool = false,
        onEventLoop handle: @escaping @Sendable (HTTPCall, HTTPResponder) throws -> Void
    ) {
        self.init(
            method, path, admission, servesHead: servesHead ?? (method == .GET), isTraced: isTraced,
            isServedWhenFull: isServedWhenFull, .onEventLoop(handle))
    }

    /// Creates a route that passes every request at or below a path to another server, whatever its method.
    /// - Parameter tail: the name of the rest of the path in the OpenAPI description.
    package init(relayedBelow path: String, _ tail: String, relay: @escaping Relay) {
        self.init(nil, "\(path)/{\(tail)}", .upstreamCaller, servesHead: false, hasTail: true, isTraced: true, .relay(relay))
    }
}

package import NIOHTTP1

/// One method on one path, who may use it, and what answers.
package struct HTTPRoute: Sendable {
    /// Who is let in.
    package enum Admission: Sendable, Equatable {
        /// Also without a key.
        case anyone
        /// A caller of this role; without configured keys, everybody is.
        case role(APIKey.Role)
        /// A caller with a key; without configured keys, nobody.
        case keyHolder
        /// A caller of the role `use` who shows the key as `X-Api-Key`: `Authorization` is meant for the upstream.
        case upstreamCaller
    }

    /// Makes what answers one request; `hasBody`: something follows its head.
    package typealias Relay = @Sendable (_ call: HTTPCall, _ hasBody: Bool, _ reply: HTTPReply) throws -> any HTTPRelay

    /// What makes the answer.
    enum Handler: Sendable {
        /// On the event loop, at once or later.
        case reply(@Sendable (HTTPCall, HTTPReply) throws -> Void)
        /// In a task of its own: for what is asked for rarely.
        case answer(@Sendable (HTTPCall) async throws -> HTTPAnswer)
        /// Another server. The body is read as it comes, however large it is.
        case relay(Relay)
    }

    /// `nil`: every method.
    let method: HTTPMethod?
    /// The path, with the names of its variable segments in braces, as the contract has it.
    let path: String
    let admission: Admission
    /// Whether `HEAD` is answered as well: where `GET` does not change anything and ends.
    let answersHead: Bool
    /// Whether the path's last variable stands for any number of segments, also for none.
    let hasTail: Bool
    /// Its requests are traced: those that decide something and come often.
    let isTraced: Bool
    /// Also by the places that are kept when all others are taken.
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

    /// - Parameter reply: answers on the event loop, or throws what is wrong.
    package init(
        _ method: HTTPMethod, _ path: String, for admission: Admission = .role(.use), answersHead: Bool? = nil,
        isTraced: Bool = true, isServedWhenFull: Bool = false, reply: @escaping @Sendable (HTTPCall, HTTPReply) throws -> Void
    ) {
        self.init(
            method, path, admission, answersHead: answersHead ?? (method == .GET), isTraced: isTraced,
            isServedWhenFull: isServedWhenFull, .reply(reply))
    }

    /// Everything at and below a path, by any method, is answered by another server.
    /// - Parameter tail: what the contract calls the rest of the path.
    package init(relayedBelow path: String, _ tail: String, relay: @escaping Relay) {
        self.init(nil, "\(path)/{\(tail)}", .upstreamCaller, answersHead: false, hasTail: true, isTraced: true, .relay(relay))
    }
}

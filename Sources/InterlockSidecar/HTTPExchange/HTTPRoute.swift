internal import HTTPTypes
internal import HummingbirdCore

/// One method on one path, who may use it, and what answers.
struct HTTPRoute: Sendable {
    /// Who is let in.
    enum Admission: Sendable, Equatable {
        /// Also without a key.
        case anyone
        /// A caller of this role; without configured keys, everybody is.
        case role(APIKey.Role)
        /// A caller with a key; without configured keys, nobody.
        case keyHolder
        /// A caller of the role `use` who shows the key as `X-Api-Key`: `Authorization` is meant for the upstream.
        case upstreamCaller
    }

    /// What makes the answer.
    enum Handler: Sendable {
        case answer(@Sendable (HTTPCall) async throws -> HTTPAnswer)
        /// Of another server. The body is read as it comes, however large it is; the writer is for what precedes the answer.
        case relay(@concurrent @Sendable (HTTPCall, borrowing ResponseWriter) async throws -> HTTPAnswer)
    }

    /// `nil`: every method.
    let method: HTTPRequest.Method?
    /// The path, with the names of its variable segments in braces, as the contract has it.
    let path: String
    let admission: Admission
    /// Whether `HEAD` is answered as well: where `GET` does not change anything and ends.
    let answersHead: Bool
    /// Whether the path's last variable stands for any number of segments, also for none.
    let hasTail: Bool
    /// Also by the places that are kept when all others are taken.
    let isServedWhenFull: Bool
    let handler: Handler

    init(
        _ method: HTTPRequest.Method, _ path: String, for admission: Admission = .role(.use), answersHead: Bool? = nil,
        isServedWhenFull: Bool = false, answer: @escaping @Sendable (HTTPCall) async throws -> HTTPAnswer
    ) {
        self.method = method
        self.path = path
        self.admission = admission
        self.answersHead = answersHead ?? (method == .get)
        hasTail = false
        self.isServedWhenFull = isServedWhenFull
        handler = .answer(answer)
    }

    /// Everything at and below a path, by any method, is answered by another server.
    /// - Parameter tail: what the contract calls the rest of the path.
    init(
        relayedBelow path: String, _ tail: String,
        relay: @escaping @concurrent @Sendable (HTTPCall, borrowing ResponseWriter) async throws -> HTTPAnswer
    ) {
        method = nil
        self.path = "\(path)/{\(tail)}"
        admission = .upstreamCaller
        answersHead = false
        hasTail = true
        isServedWhenFull = false
        handler = .relay(relay)
    }
}

package import InterlockCore
package import NIOCore
package import NIOHTTP1
package import SidecarTelemetry

/// A request that its route has admitted.
package struct HTTPCall: Sendable {
    /// The head of the request and its context, in one object that all copies of the call share.
    final class Request: Sendable {
        let head: HTTPRequestHead
        let target: HTTPTarget
        /// The variable segments of the path, decoded, in the order of the path.
        let parameters: [(name: String, value: String)]
        let caller: AccessControl.Caller
        let access: AccessControl
        /// Whether the client that waits for the response is still there.
        let presence: ClientPresence
        /// The event of the sidecar's shutdown.
        let shutdown: OneTimeEvent
        /// The client, as an element of `Forwarded` (RFC 7239).
        let forwarded: String
        /// The request's span; `nil` if the request is not traced.
        let span: NIOLoopBound<Span>?

        init(
            head: HTTPRequestHead, target: HTTPTarget, parameters: [(name: String, value: String)], caller: AccessControl.Caller,
            access: AccessControl, presence: ClientPresence, shutdown: OneTimeEvent, forwarded: String,
            span: NIOLoopBound<Span>?
        ) {
            self.head = head
            self.target = target
            self.parameters = parameters
            self.caller = caller
            self.access = access
            self.presence = presence
            self.shutdown = shutdown
            self.forwarded = forwarded
            self.span = span
        }
    }

    /// The header field with the subject: the tenant on whose behalf the call is made.
    package static let subjectField = "Interlock-Subject"

    private let request: Request
    /// The complete body; empty for a relayed request.
    package var body = ByteBuffer()

    init(_ request: Request) {
        self.request = request
    }

    package var head: HTTPRequestHead { request.head }
    package var target: HTTPTarget { request.target }
    package var caller: AccessControl.Caller { request.caller }
    package var access: AccessControl { request.access }
    /// Whether the API key of this request has since been removed.
    var isKeyRemoved: Bool { access.current(caller) == nil }
    var presence: ClientPresence { request.presence }
    package var shutdown: OneTimeEvent { request.shutdown }
    package var forwarded: String { request.forwarded }
    /// The request's span, for use on the event loop; `nil` if the request is not traced.
    package var span: Span? { request.span?.value }

    /// Returns the value of the path's variable segment with this name.
    func parameter(_ segment: String) -> String {
        request.parameters.first { $0.name == segment }?.value ?? ""
    }

    /// Returns the value of the path's variable segment with this name, as a resource name.
    /// - Throws: `HTTPProblem` if the value is not a valid name.
    package func name(_ segment: String) throws -> ResourceName {
        try ResourceName(parameter(segment), parameter: segment)
    }

    /// Returns the query's parameters.
    /// - Throws: `HTTPProblem` if the query is malformed, or has other parameters than the known ones.
    package func query(_ knownNames: String...) throws -> HTTPQuery {
        try HTTPQuery(target.query, knownNames: knownNames)
    }

    package func header(_ name: String) -> String? { head.headers.first(name: name) }

    /// Returns the fencing token in a header field; `nil` if the field is missing.
    func fence(_ field: String) throws(HTTPProblem) -> Int64? {
        guard let text = header(field) else { return nil }
        guard let fence = Int64(text), RequestLimits.fenceRange.contains(fence) else {
            let range = "\(RequestLimits.fenceRange.lowerBound) to \(RequestLimits.fenceRange.upperBound)"
            throw HTTPProblem(.invalid, "\(field): expected a whole number from \(range), got \"\(Excerpt(text))\"")
        }
        return fence
    }

    /// Whether the client waits for `100 Continue` before it sends the body.
    package var awaitsContinue: Bool { Self.awaitsContinue(head) }

    static func awaitsContinue(_ head: HTTPRequestHead) -> Bool {
        head.headers.first(name: "Expect")?.lowercased() == "100-continue"
    }

    /// Returns the body's fields.
    /// - Throws: `HTTPProblem` if the body is invalid or has other fields than the known ones.
    func fields(_ knownNames: String...) throws -> JSONFields {
        try fields(knownNames)
    }

    func fields(_ knownNames: [String]) throws -> JSONFields {
        try JSONFields(reading: body, knownNames: knownNames)
    }

    static let tooLarge = HTTPProblem(.tooLarge, "the body is larger than \(HTTPLimits.bodyBytes) bytes")
}

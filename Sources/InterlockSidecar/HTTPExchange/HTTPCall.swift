internal import InterlockCore
package import NIOCore
internal import NIOHTTP1

/// One admitted request on its way to its route.
package struct HTTPCall: Sendable {
    /// What is known from its head; one for all copies of the call.
    final class Request: Sendable {
        let head: HTTPRequestHead
        let target: HTTPTarget
        /// The variable segments of the path, decoded, in the path's order.
        let parameters: [(name: String, value: String)]
        let caller: AccessControl.Caller
        let access: AccessControl
        /// Whether the client is there to be answered.
        let peer: PeerPresence
        /// Whether the sidecar goes down.
        let shutdown: Occurrence
        /// Who asks, as an element of `Forwarded` (RFC 7239).
        let forwarded: String
        /// `nil`: it is not traced.
        let span: NIOLoopBound<Span>?

        init(
            head: HTTPRequestHead, target: HTTPTarget, parameters: [(name: String, value: String)], caller: AccessControl.Caller,
            access: AccessControl, peer: PeerPresence, shutdown: Occurrence, forwarded: String,
            span: NIOLoopBound<Span>?
        ) {
            self.head = head
            self.target = target
            self.parameters = parameters
            self.caller = caller
            self.access = access
            self.peer = peer
            self.shutdown = shutdown
            self.forwarded = forwarded
            self.span = span
        }
    }

    /// On whose behalf a call is made.
    static let subjectField = "Interlock-Subject"

    private let request: Request
    /// Whole; of what is relayed, empty.
    package var body = ByteBuffer()

    init(_ request: Request) {
        self.request = request
    }

    var head: HTTPRequestHead { request.head }
    var target: HTTPTarget { request.target }
    var caller: AccessControl.Caller { request.caller }
    var access: AccessControl { request.access }
    /// Whether the API key of this request has been removed since.
    var isKeyRemoved: Bool { access.current(caller) == nil }
    var peer: PeerPresence { request.peer }
    var shutdown: Occurrence { request.shutdown }
    var forwarded: String { request.forwarded }
    /// On the event loop; `nil`: it is not traced.
    var span: Span? { request.span?.value }

    /// The variable segment `what` of the path.
    func parameter(_ what: String) -> String {
        request.parameters.first { $0.name == what }?.value ?? ""
    }

    /// The variable segment `what` of the path as a name.
    func name(_ what: String) throws -> ResourceName {
        try ResourceName(parameter(what), what: what)
    }

    func query(_ known: String...) throws -> HTTPQuery {
        try HTTPQuery(target.query, known: known)
    }

    func header(_ name: String) -> String? { head.headers.first(name: name) }

    /// Returns the fence in a header field; `nil` if the field is missing.
    func fence(_ field: String) throws(HTTPProblem) -> Int64? {
        guard let text = header(field) else { return nil }
        guard let fence = Int64(text), DoorBounds.fences.contains(fence) else {
            let range = "\(DoorBounds.fences.lowerBound) to \(DoorBounds.fences.upperBound)"
            throw HTTPProblem(.invalid, "\(field): expected a whole number from \(range), got \"\(Excerpt(text))\"")
        }
        return fence
    }

    /// Whether the client sends the body only when it is told to.
    var awaitsContinue: Bool { Self.awaitsContinue(head) }

    static func awaitsContinue(_ head: HTTPRequestHead) -> Bool {
        head.headers.first(name: "Expect")?.lowercased() == "100-continue"
    }

    /// The body's fields.
    /// - Throws: `HTTPProblem`.
    func fields(_ known: String...) throws -> JSONFields {
        try fields(known)
    }

    func fields(_ known: [String]) throws -> JSONFields {
        try JSONFields(reading: body, known: known)
    }

    static let tooLarge = HTTPProblem(.tooLarge, "the body is larger than \(HTTPBounds.body) bytes")
}

/// What a request asks for: its path, and where it was said, whom it asks.
struct HTTPTarget: Sendable {
    /// What the targets begin with that lead to a service.
    static let proxyPrefix = "/proxy/"
    /// Whom a request is for whose path does not say so, and who has answered one.
    static let serviceField = "Interlock-Service"

    /// Begins with a slash, unless it is none that leads anywhere.
    let path: Substring
    /// Without its question mark; `nil`: there is none.
    let query: Substring?
    /// Path and query.
    let whole: Substring
    /// Of a target in absolute form, in whose place the `Host` field is not looked at (RFC 9112, section 3.2.2).
    let authority: Substring?

    /// The target of a request; one that names a service in its head is for that service's upstream, whatever its path: clients such
    /// as gRPC's cannot choose what their paths begin with.
    static func uri(of head: HTTPRequestHead) throws(HTTPProblem) -> String {
        guard let service = head.headers.first(name: serviceField) else { return head.uri }
        let name = try ResourceName(service, what: serviceField)
        return proxyPrefix + PercentEncoding.encode(name.text) + HTTPTarget(head.uri).whole
    }

    init(_ text: String) {
        var whole = text[...]
        authority = Self.takeAuthority(of: &whole)
        self.whole = whole
        if let mark = whole.utf8.firstIndex(of: UInt8(ascii: "?")) {
            path = whole[..<mark]
            query = whole[whole.utf8.index(after: mark)...]
        } else {
            path = whole
            query = nil
        }
    }

    private static func takeAuthority(of text: inout Substring) -> Substring? {
        guard text.utf8.first != UInt8(ascii: "/") else { return nil }
        let lowered = text.prefix(8).lowercased()
        guard let scheme = ["http://", "https://"].first(where: { lowered.hasPrefix($0) }) else { return nil }
        let rest = text.dropFirst(scheme.count)
        let end = rest.utf8.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
        text = end < rest.endIndex ? rest[end...] : "/"
        return rest[..<end]
    }
}

/// What a request may ask for, at most.
enum HTTPBounds {
    /// The largest body, in bytes.
    static let body = 64 * 1024
    /// Times in milliseconds.
    static let milliseconds: ClosedRange<Int64> = 0...DoorBounds.longestMilliseconds
    /// Leases in milliseconds; the coordinator's own bounds are closer.
    static let ttl: ClosedRange<Int64> = 1...DoorBounds.longestMilliseconds
    /// The places of a semaphore.
    static let permits: ClosedRange<Int64> = Int64(LockMode.places.lowerBound)...Int64(LockMode.places.upperBound)
    /// HTTP statuses that an outcome may report.
    static let statuses: ClosedRange<Int64> = 100...599
}

internal import InterlockHTTP
internal import NIOHTTP1

/// The header fields that the proxy forwards, and those that it adds (RFC 9110, section 7.6).
enum ProxyFields {
    private static let via = "1.1 interlock"
    private static let viaHTTP2 = "2 interlock"

    /// Fields that apply to a single connection and are not forwarded.
    private static let hopByHop = FieldNames(
        "close", "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings")
    private static let connection = FieldNames("connection")
    /// Request fields that are meant for this sidecar, or that it sets itself.
    private static let sidecarRequestFields = FieldNames(
        "host", "x-api-key", "interlock-subject", "interlock-service", "expect", "content-length")
    /// Fields that are not valid as trailers, because recipients need them before they read the body.
    private static let forbiddenInTrailers = FieldNames(
        "authorization", "content-encoding", "content-range", "content-type", "cookie", "set-cookie")
    /// Response fields that only this sidecar may set.
    private static let sidecarResponseFields = FieldNames(
        "interlock-service", "interlock-state", "interlock-waited", "interlock-fallback")

    /// Returns the fields of the request to the upstream.
    /// - Parameters:
    ///   - forwarded: the client, as an element of `Forwarded` (RFC 7239).
    ///   - authority: the upstream's authority, for `Host`.
    ///   - hasBody: whether a body or trailers follow the head.
    ///   - isForHTTP2: whether the upstream may speak HTTP/2.
    static func request(
        _ head: HTTPRequestHead, authority: String, forwarded: String, hasBody: Bool, isForHTTP2: Bool
    ) -> HTTPHeaders {
        var headers = HTTPHeaders()
        headers.reserveCapacity(head.headers.count + 4)
        headers.add(name: "Host", value: authority)
        let connectionFields = namedByConnection(in: head.headers)
        for (name, value) in head.headers
        where isForwarded(name, connectionFields) && !sidecarRequestFields.contains(name) {
            headers.add(name: name, value: value)
        }
        let isFromHTTP2 = head.version == .http2
        if isFromHTTP2 { joinCookies(in: &headers) }
        // gRPC servers require `TE: trailers`. HTTP/2 allows no other connection-specific field (RFC 9113, section
        // 8.2.2).
        if isForHTTP2, tokens(of: "TE", in: head.headers).contains("trailers") { headers.add(name: "TE", value: "trailers") }
        addLength(of: head, hasBody, to: &headers)
        headers.add(name: "Forwarded", value: forwarded)
        headers.add(name: "Via", value: isFromHTTP2 ? viaHTTP2 : via)
        return headers
    }

    /// Joins the `Cookie` fields: HTTP/2 allows several, HTTP/1.1 does not (RFC 9113, section 8.2.3).
    private static func joinCookies(in headers: inout HTTPHeaders) {
        let cookies = headers["Cookie"]
        if cookies.count > 1 { headers.replaceOrAdd(name: "Cookie", value: cookies.joined(separator: "; ")) }
    }

    // MARK: A change of protocol

    private static let webSocket = "websocket"

    /// Returns whether a request asks to switch to a WebSocket (RFC 6455, section 4.1).
    static func asksForWebSocket(_ head: HTTPRequestHead) -> Bool {
        head.method == .GET && head.version == .http1_1 && namesWebSocket(head.headers)
            && tokens(of: "Connection", in: head.headers).contains("upgrade")
    }

    /// Returns whether the `Upgrade` field of a request or a response names WebSocket.
    static func namesWebSocket(_ headers: HTTPHeaders) -> Bool { tokens(of: "Upgrade", in: headers).contains(webSocket) }

    /// Adds the fields that request or confirm the switch to a WebSocket.
    static func addUpgrade(to headers: inout HTTPHeaders) {
        headers.add(name: "Connection", value: "Upgrade")
        headers.add(name: "Upgrade", value: webSocket)
    }

    /// Adds `Content-Length`, or `Transfer-Encoding` for a body of unknown length.
    private static func addLength(of head: HTTPRequestHead, _ hasBody: Bool, to headers: inout HTTPHeaders) {
        if !hasBody {
            // Methods that usually have a body must declare an empty one (RFC 9110, section 8.6).
            if [.POST, .PUT, .PATCH].contains(head.method) { headers.add(name: "Content-Length", value: "0") }
        } else if let length = head.headers.first(name: "Content-Length") {
            headers.add(name: "Content-Length", value: length)
        } else {
            headers.add(name: "Transfer-Encoding", value: "chunked")
        }
    }

    /// Returns the fields of the response to the client.
    /// - Parameter isInformational: whether a final response follows, which carries the fields that the sidecar adds.
    static func response(_ received: HTTPHeaders, isInformational: Bool = false) -> HTTPHeaders {
        var headers = HTTPHeaders()
        headers.reserveCapacity(received.count + 5)
        let connectionFields = namedByConnection(in: received)
        for (name, value) in received
        where isForwarded(name, connectionFields) && !sidecarResponseFields.contains(name) {
            headers.add(name: name, value: value)
        }
        if isInformational { return headers }
        // The response has the same origin as the admin API, which scripts of an upstream's page must not call.
        headers.add(name: "Content-Security-Policy", value: "sandbox")
        headers.add(name: "Via", value: via)
        return headers
    }

    /// Returns the trailers to forward, in either direction. Fields for framing, routing or authentication are not
    /// allowed in trailers (RFC 9110, section 6.5.1).
    static func trailers(_ received: HTTPHeaders?) -> HTTPHeaders? {
        received.map { received in
            HTTPHeaders(
                received.filter { name, _ in
                    isForwarded(name, []) && !sidecarRequestFields.contains(name) && !sidecarResponseFields.contains(name)
                        && !forbiddenInTrailers.contains(name)
                })
        }
    }

    /// Returns whether a field may be forwarded, as far as the rules for connections are concerned.
    /// - Parameter connectionFields: the fields that `Connection` names, in lower case.
    private static func isForwarded(_ name: String, _ connectionFields: Set<String>) -> Bool {
        if hopByHop.contains(name) || FieldNames.name(name, beginsWith: "proxy-") { return false }
        return connectionFields.isEmpty || !connectionFields.contains(name.lowercased())
    }

    /// Returns the fields that `Connection` names, in lower case. Returns an empty set if each `Connection` field names
    /// only one field, and that field is never forwarded.
    private static func namedByConnection(in headers: HTTPHeaders) -> Set<String> {
        // Most messages name only `keep-alive` or `close`.
        let namesOtherField = headers.contains { name, value in connection.contains(name) && !hopByHop.contains(value) }
        return namesOtherField ? tokens(of: "Connection", in: headers) : []
    }

    /// Returns the tokens of a field's lists, in lower case and without parameters.
    private static func tokens(of name: String, in headers: HTTPHeaders) -> Set<String> {
        guard headers.contains(name: name) else { return [] }
        let words = headers[name].flatMap { $0.lowercased().utf8.split(separator: UInt8(ascii: ",")) }
        return Set(words.map { String(Substring($0.drop(while: isSpace).prefix { !isSpace($0) && $0 != UInt8(ascii: ";") })) })
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
}

/// A set of field names with case-insensitive lookup that does not allocate.
private struct FieldNames {
    /// The names by length, in lower case.
    private var byLength: [[[UInt8]]]

    init(_ names: String...) {
        byLength = Array(repeating: [], count: (names.map(\.utf8.count).max() ?? 0) + 1)
        for name in names { byLength[name.utf8.count].append(Array(name.utf8)) }
    }

    func contains(_ name: String) -> Bool {
        let length = name.utf8.count
        guard length < byLength.count else { return false }
        for candidate in byLength[length] where Self.name(name, beginsWith: candidate) { return true }
        return false
    }

    /// Returns whether a name begins with a prefix, ignoring case.
    /// - Parameter prefix: the prefix, in lower case.
    static func name(_ name: String, beginsWith prefix: some Collection<UInt8>) -> Bool {
        var bytes = name.utf8.makeIterator()
        for lowercaseByte in prefix {
            guard let byte = bytes.next(), byte == lowercaseByte || (byte | 0x20 == lowercaseByte && 65...90 ~= byte)
            else {
                return false
            }
        }
        return true
    }

    static func name(_ name: String, beginsWith prefix: String) -> Bool { self.name(name, beginsWith: prefix.utf8) }
}

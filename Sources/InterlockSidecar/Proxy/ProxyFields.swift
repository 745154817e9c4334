internal import FoundationEssentials
internal import HTTPTypes
internal import NIOHTTP1

/// Which header fields a proxy passes on, and which it adds (RFC 9110, section 7.6).
enum ProxyFields {
    private static let via = "1.1 interlock"

    /// The request's fields as the upstream gets them.
    /// - Parameters:
    ///   - forwarded: who asks, as an element of `Forwarded` (RFC 7239).
    ///   - authority: the upstream's, for `Host`.
    static func request(_ fields: HTTPFields, authority: String, forwarded: String) -> HTTPHeaders {
        var headers = HTTPHeaders()
        headers.reserveCapacity(fields.count + 3)
        headers.add(name: "Host", value: authority)
        let named = fields.contains(.connection) ? tokens(fields[values: .connection]) : []
        for field in fields where isPassedOn(field.name.canonicalName, named) && !isOurs(field.name) {
            headers.add(name: field.name.rawName, value: field.value)
        }
        headers.add(name: "Forwarded", value: forwarded)
        headers.add(name: "Via", value: via)
        return headers
    }

    /// The answer's fields as the client gets them.
    static func answer(_ headers: HTTPHeaders) -> HTTPFields {
        var fields = HTTPFields()
        fields.reserveCapacity(headers.count + 4)
        let named = headers.contains(name: "connection") ? tokens(headers["connection"]) : []
        for (text, value) in headers {
            guard let name = HTTPField.Name(text), isPassedOn(name.canonicalName, named), !isSaidByUs(name) else { continue }
            fields.append(HTTPField(name: name, value: value))
        }
        // It comes from the origin of the admin API: a page must not act there.
        fields.append(HTTPField(name: .contentSecurityPolicy, value: "sandbox"))
        fields.append(HTTPField(name: .via, value: via))
        return fields
    }

    /// An element of `Forwarded`.
    static func forwarded(for address: String?, host: String?, isTLS: Bool) -> String {
        // A colon, as in an IPv6 address or a port, wants quotes.
        let client = address.map { $0.contains(":") ? "\"[\($0)]\"" : $0 } ?? "unknown"
        let named = host.map { ";host=\"\($0.filter { $0 != "\"" && $0 != "\\" })\"" } ?? ""
        return "for=\(client)\(named);proto=\(isTLS ? "https" : "http")"
    }

    /// - Parameter name: in lower case.
    private static func isPassedOn(_ name: String, _ named: Set<String>) -> Bool {
        switch name {
        case "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings": false
        case let name where name.hasPrefix("proxy-"): false
        default: named.isEmpty || !named.contains(name)
        }
    }

    /// What is meant for this sidecar, or made by the client that calls the upstream.
    private static func isOurs(_ name: HTTPField.Name) -> Bool {
        name == .xAPIKey || name == .interlockSubject || name == .expect || name == .contentLength
    }

    /// What only this sidecar says, so that an upstream cannot.
    private static func isSaidByUs(_ name: HTTPField.Name) -> Bool {
        [.interlockService, .interlockState, .interlockWaited, .interlockFallback].contains(name)
    }

    private static func tokens(_ values: [String]) -> Set<String> {
        let words = values.flatMap { $0.lowercased().split(separator: ",") }
        return Set(words.map { String($0.drop { $0 == " " }.prefix { $0 != " " && $0 != "\t" }) })
    }
}

/// The `Retry-After` field (RFC 9110, section 10.2.3): seconds, or a date.
package enum RetryAfter {
    /// Longer than anybody waits; what is above it counts as it.
    package static let longestSeconds: Int64 = 366 * 86_400

    /// In milliseconds from now; `nil`: it is neither.
    package static func milliseconds(_ text: String) -> Int64? {
        if let seconds = Int64(text) { return seconds < 0 ? nil : min(seconds, longestSeconds) * 1000 }
        guard let second = HTTPDate.second(text) else { return nil }
        let now = Int64(Date.now.timeIntervalSince1970.rounded(.down))
        return min(max(0, second - now), longestSeconds) * 1000
    }
}

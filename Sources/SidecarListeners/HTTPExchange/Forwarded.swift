/// The field `Forwarded` (RFC 7239).
enum Forwarded {
    /// Returns the element that describes one request: its client's address, its host and its scheme.
    static func element(for address: String?, host: String?, isTLS: Bool) -> String {
        // An IPv6 address contains colons, which need quotes.
        let client = address.map { $0.contains(":") ? "\"[\($0)]\"" : $0 } ?? "unknown"
        let hostParameter = host.map { ";host=\"\($0.filter { $0 != "\"" && $0 != "\\" })\"" } ?? ""
        return "for=\(client)\(hostParameter);proto=\(isTLS ? "https" : "http")"
    }
}

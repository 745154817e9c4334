/// The field `Forwarded` (RFC 7239).
enum Forwarded {
    /// Returns the element for one request.
    static func element(for address: String?, host: String?, isTLS: Bool) -> String {
        // A colon, as in an IPv6 address or a port, needs quotes.
        let client = address.map { $0.contains(":") ? "\"[\($0)]\"" : $0 } ?? "unknown"
        let named = host.map { ";host=\"\($0.filter { $0 != "\"" && $0 != "\\" })\"" } ?? ""
        return "for=\(client)\(named);proto=\(isTLS ? "https" : "http")"
    }
}

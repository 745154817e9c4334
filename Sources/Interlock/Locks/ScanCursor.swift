/// The position of a listing over the keys of one or more servers, as a single number; for one server it equals Redis's
/// own cursor. Redis's cursors are limited by the size of its tables, so the product cannot overflow.
struct ScanCursor {
    let server: Int
    private let position: UInt64
    private let servers: UInt64

    /// The cursor with which the server's own listing continues.
    var cursor: String { "\(position)" }

    /// Parses a cursor; returns `nil` if it does not belong to a listing over this number of servers.
    init?(_ text: String, servers: Int) {
        guard servers > 0, let number = UInt64(text) else { return nil }
        self.servers = UInt64(servers)
        position = number / self.servers
        server = Int(number % self.servers)
    }

    init(server: Int, position: UInt64 = 0, servers: Int) {
        (self.server, self.position, self.servers) = (server, position, UInt64(servers))
    }

    /// Returns the cursor after a step that Redis ended with `next`; `0` at the end of the listing.
    /// - Parameter isLast: whether no server comes after this one.
    func following(_ next: String, isLast: Bool) -> String {
        guard let next = UInt64(next) else { return "0" }
        if next > 0 { return "\(next &* servers &+ UInt64(server))" }
        return isLast ? "0" : "\(server + 1)"
    }
}

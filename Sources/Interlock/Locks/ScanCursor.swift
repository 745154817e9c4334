/// The position of a listing over the keys of one or more servers, as a single number: the cursor of one server times
/// the number of servers, plus the server's index. For one server it equals the cursor of Redis. The size of Redis's
/// tables limits its cursors, so the product cannot overflow.
struct ScanCursor {
    /// The index of the server whose listing continues.
    let server: Int
    private let position: UInt64
    private let serverCount: UInt64

    /// The cursor with which the listing of that server continues.
    var cursor: String { "\(position)" }

    /// Parses a cursor; returns `nil` if it does not belong to a listing over this number of servers.
    init?(_ cursor: String, servers: Int) {
        guard servers > 0, let number = UInt64(cursor) else { return nil }
        serverCount = UInt64(servers)
        position = number / serverCount
        server = Int(number % serverCount)
    }

    init(server: Int, position: UInt64 = 0, servers: Int) {
        (self.server, self.position, self.serverCount) = (server, position, UInt64(servers))
    }

    /// Returns the cursor after a step that Redis ended with `next`; `0` at the end of the listing.
    /// - Parameter isLast: whether no server comes after this one.
    func following(_ next: String, isLast: Bool) -> String {
        guard let next = UInt64(next) else { return "0" }
        if next > 0 { return "\(next &* serverCount &+ UInt64(server))" }
        return isLast ? "0" : "\(server + 1)"
    }
}

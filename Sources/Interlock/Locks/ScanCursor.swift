/// How far a listing of one or several servers' keys has got: the server, and how far there. One number, and of a single server Redis'
/// own. What Redis hands out is as long as its tables: far from overflowing.
struct ScanCursor {
    let server: Int
    private let position: UInt64
    private let servers: UInt64

    /// Where a server's own listing goes on.
    var cursor: String { "\(position)" }

    /// `nil`: it is none of a listing of so many servers.
    init?(_ text: String, servers: Int) {
        guard servers > 0, let number = UInt64(text) else { return nil }
        self.servers = UInt64(servers)
        position = number / self.servers
        server = Int(number % self.servers)
    }

    init(server: Int, position: UInt64 = 0, servers: Int) {
        (self.server, self.position, self.servers) = (server, position, UInt64(servers))
    }

    /// What to go on with after a step that Redis ended with `next`; `0`: all has been seen.
    /// - Parameter isLast: whether no server comes after this one.
    func following(_ next: String, isLast: Bool) -> String {
        guard let next = UInt64(next) else { return "0" }
        if next > 0 { return "\(next &* servers &+ UInt64(server))" }
        return isLast ? "0" : "\(server + 1)"
    }
}

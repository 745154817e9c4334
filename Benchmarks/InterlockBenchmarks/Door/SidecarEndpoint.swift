import ArgumentParser

/// Where a sidecar's RESP door is: `HOST:PORT`.
struct SidecarEndpoint: ExpressibleByArgument, Sendable {
    var host: String
    var port: Int

    init?(argument: String) {
        guard let colon = argument.lastIndex(of: ":"), let port = Int(argument[argument.index(after: colon)...]),
            (1...65535).contains(port)
        else { return nil }
        host = String(argument[..<colon])
        self.port = port
    }
}

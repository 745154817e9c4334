import ArgumentParser
import InterlockClient
import Logging
import NIOCore

/// The address of a sidecar's RESP API on the command line: `HOST:PORT`.
struct BenchmarkedSidecar: ExpressibleByArgument, Sendable {
    private var configuration: SidecarClientConfiguration

    init?(argument: String) {
        guard let colon = argument.lastIndex(of: ":"), let port = Int(argument[argument.index(after: colon)...]),
            (1...65535).contains(port)
        else { return nil }
        configuration = SidecarClientConfiguration(address: .tcp(host: String(argument[..<colon]), port: port))
    }

    /// Returns a new connection, which the caller must start.
    func connection(on eventLoop: any EventLoop) -> SidecarConnection {
        SidecarConnection(
            configuration, eventLoop: eventLoop, logger: Logger(label: "benchmark") { _ in SwiftLogNoOpLogHandler() })
    }
}

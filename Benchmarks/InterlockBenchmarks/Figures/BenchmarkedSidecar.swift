import ArgumentParser
import InterlockClient
import Logging
import NIOCore

/// A sidecar's RESP door, as the command line names it: `HOST:PORT`.
struct BenchmarkedSidecar: ExpressibleByArgument, Sendable {
    private var configuration: SidecarClientConfiguration

    init?(argument: String) {
        guard let colon = argument.lastIndex(of: ":"), let port = Int(argument[argument.index(after: colon)...]),
            (1...65535).contains(port)
        else { return nil }
        configuration = SidecarClientConfiguration(address: .tcp(host: String(argument[..<colon]), port: port))
    }

    /// A connection that was not started yet.
    func connection(on eventLoop: any EventLoop) -> SidecarConnection {
        SidecarConnection(
            configuration, eventLoop: eventLoop, logger: Logger(label: "benchmark") { _ in SwiftLogNoOpLogHandler() })
    }
}

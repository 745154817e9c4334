import ArgumentParser
import NIOCore
import NIOPosix

/// Many leases that the sidecar keeps alive.
struct LinkedCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "linked",
        abstract: "Whether a sidecar keeps many linked leases alive.",
        discussion: """
            Prints {"held":N} as soon as all leases are there, then does nothing for the given time, and then looks for each \
            of them.
            """)

    @Option(help: ArgumentHelp("A RESP door.", valueName: "host:port"))
    var sidecar: SidecarEndpoint

    @Option(help: "How many leases, spread over ten connections.")
    var leases = 10_000

    @Option(help: "The leases' length in milliseconds.")
    var ttl = 10_000

    @Option(help: "How long to hold them.")
    var seconds = 60.0

    func run() async throws {
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let plan = LinkedRun.Plan(leases: leases, ttl: ttl, hold: TimeAmount(seconds: seconds))
        let figures = try await eventLoop.flatSubmit { [sidecar] in
            LinkedRun.start(plan, sidecar: sidecar, eventLoop: eventLoop)
        }.get()
        try figures.show()
    }
}

import ArgumentParser
import NIOCore
import NIOPosix

/// One lock, no hold time, many waiters at each sidecar.
struct HandoverCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "handover",
        abstract: "How fast a lock goes from hand to hand: all clients, in one process, want the same lock.")

    @Option(name: .customLong("sidecar"), help: ArgumentHelp("A RESP door; may be repeated.", valueName: "host:port"))
    var sidecars: [SidecarEndpoint]

    @Option(help: "Clients at each sidecar.")
    var waiters = 16

    @Option(help: "How long to measure; the lock goes round for a second before.")
    var seconds = 5.0

    @Option(help: "The lock's name.")
    var lock = "handover"

    func run() async throws {
        let endpoints = sidecars.flatMap { Array(repeating: $0, count: waiters) }
        let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        let length = TimeAmount(seconds: seconds)
        let figures = try await eventLoop.flatSubmit { [lock] in
            HandoverRun.start(endpoints: endpoints, lock: lock, length: length, eventLoop: eventLoop)
        }.get()
        try figures.show()
    }
}

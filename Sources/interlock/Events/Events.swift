import ArgumentParser
import Interlock
import UnixSignals

/// `interlock events`: what happens in the fleet, as it happens.
struct Events: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Follow what happens in the fleet.",
        discussion: """
            Prints a line for every change of a breaker, every broken lock and every sidecar that comes or goes, until Ctrl-C. \
            Events are hints: those of a moment without a connection are missed, which is said on standard error.

            EXAMPLES
              interlock events
              interlock events --json | jq -c 'select(.type == "breaker")'
            """
    )

    @Option(help: ArgumentHelp("What the sidecar's configuration has as redis.prefix.", valueName: "text"))
    var prefix = KeySpace.defaultPrefix

    @OptionGroup var sidecar: SidecarOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        let channel = KeySpace(prefix: prefix).events
        // A subscriber keeps trying and cannot tell a refusal from silence: first find out that there is something to follow.
        try await SidecarConnection.open(sidecar) { try await $0.send(FollowEvents(channel: channel)) }
        let target = try sidecar.target()
        let follower = EventFollower(configuration: target.configuration, channel: channel)
        let isJSON = output.json
        await follower.start()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in signals { return } }
            group.addTask { await Self.print(follower.notices, from: target.address, asJSON: isJSON) }
            _ = await group.next()
            group.cancelAll()
        }
        await follower.close()
    }

    /// Prints until the notices end or nobody reads on.
    private static func print(
        _ notices: AsyncStream<EventFollower.Notice>, from address: SidecarAddress, asJSON: Bool
    ) async {
        var isFollowing = true
        for await notice in notices {
            switch notice {
            case .following:
                isFollowing = true
                Terminal.tell("interlock: following the events of the sidecar at \(address)")
            case .interrupted:
                // Each attempt to connect again ends in one more of these.
                guard isFollowing else { continue }
                Terminal.tell("interlock: the sidecar at \(address) is away, and events are missed; it is tried again")
                isFollowing = false
            case .event(let json):
                let line = asJSON ? JSONOutput.line(String(decoding: json, as: UTF8.self)) : InterlockEvent(json: json)?.line
                guard let line else { continue }
                guard Terminal.show(line) else { return }
            }
        }
    }
}

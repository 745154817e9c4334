import ArgumentParser
import Interlock
import UnixSignals

/// `interlock events`: what happens in the fleet, as it happens.
struct EventsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "events",
        abstract: "Follow what happens in the fleet.",
        discussion: """
            Prints a line for every change of a breaker, every limit that is nearly or wholly used up, every broken lock and \
            every sidecar that comes or goes, until Ctrl-C. Events are hints: those of a moment without a connection, and \
            those that come faster than they can be printed, are missed, which is said on standard error.

            EXAMPLES
              interlock events
              interlock events --type breaker --type limit.reached
              interlock events --json | jq -c 'select(.type == "breaker")'
            """
    )

    @Option(help: ArgumentHelp("What the sidecar's configuration has as redis.prefix.", valueName: "text"))
    var prefix = KeySpace.defaultPrefix

    @Option(
        name: .customLong("type"),
        help: ArgumentHelp(
            "Only events of this type, or of those that begin with it: breaker, limit, limit.near … Repeatable.",
            valueName: "type"))
    var types: [EventTypes] = []

    @OptionGroup var sidecar: SidecarOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        let channel = KeySpace(prefix: prefix).events
        // A subscriber keeps trying and cannot tell a refusal from silence: first find out that there is something to follow.
        try await SidecarConnection.open(sidecar) { try await $0.send(FollowEvents(channel: channel)) }
        let target = try sidecar.target()
        let follower = EventFollower(configuration: target.configuration, channel: channel)
        let (types, isJSON) = (types, output.json)
        await follower.start()
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for await _ in signals { return } }
            group.addTask { await Self.print(follower.notices, of: types, from: target.address, asJSON: isJSON) }
            _ = await group.next()
            group.cancelAll()
        }
        await follower.close()
    }

    /// Prints until the notices end or nobody reads on.
    private static func print(
        _ notices: NewestBuffer<EventFollower.Notice>, of types: [EventTypes], from address: SidecarAddress, asJSON: Bool
    ) async {
        var isFollowing = true
        var dropped: Int64 = 0
        while let notice = await notices.next() {
            let droppedNow = notices.dropped
            if droppedNow > dropped {
                Terminal.tell("interlock: \(droppedNow - dropped) events were missed: they came faster than they are printed")
                dropped = droppedNow
            }
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
                guard let message = EventMessage(json), types.isEmpty || types.contains(where: { $0.includes(message.type) })
                else { continue }
                guard let line = asJSON ? JSONOutput.line(message.json) : InterlockEvent(json: json)?.line else { continue }
                guard Terminal.show(line) else { return }
            }
        }
    }
}

/// A type of event to follow, or what the names of several begin with: `limit` for `limit.near`, `limit.reached` …
struct EventTypes: ExpressibleByArgument {
    private let name: String

    init?(argument: String) {
        name = argument
        guard EventPayload.allTypes.contains(where: includes) else { return nil }
    }

    static var allValueStrings: [String] {
        let types = EventPayload.allTypes
        return Set(types.map { $0.prefix { $0 != "." } }.map(String.init)).union(types).sorted()
    }

    func includes(_ type: String) -> Bool { type == name || type.hasPrefix(name + ".") }
}

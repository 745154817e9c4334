import ArgumentParser
import Interlock
import InterlockClient
import InterlockCommandLine
import InterlockCore
import UnixSignals

/// `interlock events`: prints the fleet's events as they happen.
struct EventsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "events",
        abstract: "Print the events of the fleet as they happen.",
        usage: "interlock events [<options>]",
        discussion: """
            Prints one line for each breaker that changes, limit that is nearly or fully used, lock that is broken, and \
            sidecar that joins or leaves. Press Ctrl-C to stop. Delivery is not guaranteed: events are missed while the \
            connection is lost or while they arrive faster than they can be printed, and standard error reports that.

            EXAMPLES
              interlock events
              interlock events --type breaker --type limit.reached
              interlock events --json | jq -c 'select(.type == "breaker")'
            """
    )

    @Option(
        help: ArgumentHelp(
            "The redis.prefix of the sidecar's configuration; by default the sidecar reports it.", valueName: "text"))
    var prefix: String?

    @Option(
        name: .customLong("type"),
        help: ArgumentHelp(
            "Print only this event type, or all types with this prefix. Repeatable.",
            valueName: "type"))
    var types: [EventTypes] = []

    @OptionGroup var sidecar: SidecarOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        let channel = prefix.map { KeySpace(prefix: $0).events }
        let (types, isJSON) = (types, output.json)
        try await sidecar.withClient("events", configured: { $0.eventChannel = channel }) { client in
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { for await _ in signals { return } }
                group.addTask { try await Self.print(of: types, from: client, asJSON: isJSON) }
                _ = try await group.next()
                group.cancelAll()
            }
        }
    }

    /// The maximum number of events that are buffered for a slow terminal.
    private static let capacity = 10_000

    /// Prints events until the stream ends or the output is closed.
    /// - Throws: `InterlockError` if the first attempt to follow the sidecar fails.
    private static func print(of types: [EventTypes], from client: SidecarClient, asJSON: Bool) async throws {
        let address = client.configuration.address
        let events = client.events.messages.subscribe(capacity: capacity)
        var hasFollowed = false
        var reportedDrops: Int64 = 0
        for await message in events {
            let newDrops = events.dropped - reportedDrops
            if newDrops > 0 {
                let count = newDrops == 1 ? "1 event" : "\(newDrops) events"
                Terminal.report("interlock: missed \(count) that arrived faster than the output was read")
            }
            reportedDrops += newDrops
            switch message {
            case .connection(.following):
                hasFollowed = true
                Terminal.report("interlock: following the events of the sidecar at \(address)")
            case .connection(.interrupted(let error)):
                guard hasFollowed else { throw error }
                Terminal.report("interlock: lost the connection to the sidecar at \(address); missing events until it returns")
            case .event(let received):
                guard types.isEmpty || types.contains(where: { $0.includes(received.message.type) }),
                    let line = asJSON ? JSONOutput.line(received.message.json) : received.event?.line
                else { continue }
                guard await Terminal.showNext(line) else { return }
            }
        }
    }
}

/// An event type to follow, or the common prefix of several types: `limit` for `limit.near`, `limit.reached` …
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

extension InterlockEvent<EventPayload> {
    /// The event as one human-readable line.
    var line: String {
        "\(ReadableText.moment(epochMilliseconds: atMilliseconds))  \(sentence)".printable
    }
}

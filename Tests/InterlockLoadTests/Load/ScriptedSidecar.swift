import InterlockTesting
import NIOConcurrencyHelpers

/// The part of a sidecar that a run uses. Grants every lock, except for the commands that a test answers itself.
final class ScriptedSidecar: Sendable {
    private let fence = NIOLockedValueBox(Int64(1000))
    private let validFor: Int
    private let events: [String]
    private let exception: @Sendable (ReceivedCommand) -> ScriptedReply?

    /// Creates a sidecar that answers commands itself, except for those that `exception` answers.
    /// - Parameters:
    ///   - validFor: the validity of every lease, in milliseconds.
    ///   - events: the events for every subscriber.
    ///   - exception: the test's answer to a command; `nil` for the usual one.
    init(
        validFor: Int = 10_000, events: [String] = [],
        exception: @escaping @Sendable (ReceivedCommand) -> ScriptedReply? = { _ in nil }
    ) {
        self.validFor = validFor
        self.events = events
        self.exception = exception
    }

    func answer(_ command: ReceivedCommand) -> ScriptedReply {
        if let answer = exception(command) { return answer }
        switch command.text[0] {
        case "SUBSCRIBE":
            let channel = Self.bulk(command.text[1])
            let messages = events.map { "*3\r\n\(Self.bulk("message"))\(channel)\(Self.bulk($0))" }
            return .text("*3\r\n\(Self.bulk("subscribe"))\(channel):1\r\n" + messages.joined())
        case "PING": return .text("+PONG\r\n")
        case "CLIENT": return .text(":1\r\n")
        case "INFO": return .text(Self.bulk("interlock_version:0\r\nredis_up:1\r\nredis_commands:5\r\nprocess_id:0\r\n"))
        case "LOCK.ACQUIRE":
            let fence = fence.withLockedValue { fence in
                fence += 1
                return fence
            }
            return .text("*3\r\n\(Self.bulk("label/token"))" + ":\(fence)\r\n:\(validFor)\r\n")
        case "LOCK.RENEW": return .text(":\(validFor)\r\n")
        case "LOCK.RELEASE": return .text(":1\r\n")
        default: return .text("-ERR unknown command\r\n")
        }
    }

    private static func bulk(_ text: String) -> String { "$\(text.utf8.count)\r\n\(text)\r\n" }
}

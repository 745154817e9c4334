internal import Interlock
internal import SidecarSettings

/// The commands of the RESP API: their names, arities and required roles.
package struct RESPCommandTable: Sendable {
    enum Command: Int, CaseIterable {
        case ping, echo, auth, hello, client, command, info, select, quit, reset, subscribe, unsubscribe
        case lockAcquire, lockRenew, lockRelease, lockInfo, lockList, lockBreak, lockGrants
        case limitTake, limitPeek, limitList, throttle
        case permitAcquire, permitReport
        case breakerState, breakerList, breakerForce
        case fleetList, liveView

        var name: String { RESPCommandTable.names[rawValue] }

        /// Whether the reply is written immediately, at a cost that grows with the number of listed entries.
        var isUnboundedListing: Bool {
            switch self {
            case .command, .info, .lockGrants, .breakerList, .liveView: true
            default: false
            }
        }
    }

    /// The description of one command.
    package final class Entry: Sendable {
        let command: Command
        package let name: String
        /// The number of arguments, including the name.
        let arity: ClosedRange<Int>
        /// The required role; `nil` if the command needs no API key.
        let role: APIKey.Role?
        /// The command's syntax, for error messages.
        package let usage: String

        init(command: Command, name: String, arity: ClosedRange<Int>, role: APIKey.Role?, usage: String) {
            self.command = command
            self.name = name
            self.arity = arity
            self.role = role
            self.usage = usage
        }
    }

    private let entries: [CommandKey: Entry]
    package let all: [Entry]

    package init() {
        all = Command.allCases.map(Self.entry)
        entries = Dictionary(uniqueKeysWithValues: all.map { (CommandKey($0.name), $0) })
    }

    private static let names = Command.allCases.map { entry($0).name }
    static let lowercaseNames = names.map { $0.lowercased() }
    /// The names of the commands in metrics, in the order of the table, followed by one name for all unknown commands.
    static let metricNames = lowercaseNames + ["unknown"]
    /// The index of unknown commands in `metricNames`.
    static let unknown = Command.allCases.count

    package subscript(key: CommandKey) -> Entry? { entries[key] }

    /// The maximum number of arguments of commands with options or lists.
    private static let many = 64

    private static func entry(_ command: Command) -> Entry {
        func entry(_ usage: String, _ arity: ClosedRange<Int>, _ role: APIKey.Role? = .use) -> Entry {
            let name = String(usage.prefix { $0 != " " })
            return Entry(command: command, name: name, arity: arity, role: role, usage: usage)
        }
        return switch command {
        case .ping: entry("PING [message]", 1...2)
        case .echo: entry("ECHO message", 2...2)
        case .auth: entry("AUTH [name] key", 2...3, nil)
        case .hello: entry("HELLO [2|3 [AUTH name key] [SETNAME name]]", 1...many, nil)
        case .client: entry("CLIENT ID|GETNAME|SETNAME name|SETINFO attribute value|LOSSES ON|OFF", 2...many)
        case .command: entry("COMMAND [COUNT|LIST|DOCS [name …]|INFO [name …]]", 1...many)
        case .info: entry("INFO [section …]", 1...many)
        case .select: entry("SELECT 0", 2...2)
        case .quit: entry("QUIT", 1...1, nil)
        case .reset: entry("RESET", 1...1, nil)
        case .subscribe: entry("SUBSCRIBE channel", 2...many)
        case .unsubscribe: entry("UNSUBSCRIBE [channel]", 1...many)
        case .lockAcquire:
            entry(
                "LOCK.ACQUIRE name ttl-ms [WAIT ms] [OWNER token] [LABEL text] [LINKED] [SHARED|PERMITS n] "
                    + "[ALSO count name …] [TRACEPARENT text]", 3...many)
        case .lockRenew: entry("LOCK.RENEW name token ttl-ms [FENCE n]", 4...6)
        case .lockRelease: entry("LOCK.RELEASE name token [FENCE n]", 3...5)
        case .lockInfo: entry("LOCK.INFO name", 2...2)
        case .lockList: entry("LOCK.LIST [cursor] [MATCH glob] [COUNT n]", 1...6)
        case .lockBreak: entry("LOCK.BREAK name [FENCE n]", 2...4, .admin)
        case .lockGrants: entry("LOCK.GRANTS [name]", 1...2)
        case .limitTake: entry("LIMIT.TAKE service [COST n] [SUBJECT s] [WAIT ms] [NAMED] [TRACEPARENT text]", 2...many)
        case .limitPeek: entry("LIMIT.PEEK service [SUBJECT s | DESCRIPTOR text] [NAMED]", 2...many)
        case .limitList: entry("LIMIT.LIST service [SUBJECT s]", 2...4)
        case .throttle: entry("CL.THROTTLE key max_burst count period [quantity]", 5...6)
        case .permitAcquire: entry("PERMIT.ACQUIRE service [COST n] [SUBJECT s] [WAIT ms] [TRACEPARENT text]", 2...many)
        case .permitReport:
            entry("PERMIT.REPORT service permit OK|ERROR|IGNORE [LATENCY ms] [STATUS code] [RETRYAFTER ms]", 4...many)
        case .breakerState: entry("BREAKER.STATE service", 2...2)
        case .breakerList: entry("BREAKER.LIST", 1...1)
        case .breakerForce:
            entry("BREAKER.FORCE service OPEN|CLOSED|DISABLED|AUTO [FOR ms] [REASON text]", 3...many, .admin)
        case .fleetList: entry("FLEET.LIST", 1...1)
        case .liveView: entry("LIVE.VIEW view [NAME name] [SEARCH text] [CURSOR n] [FROM n]", 2...many)
        }
    }
}

extension StepTrace.Step {
    /// The command that requests this step.
    var command: RESPCommandTable.Command {
        switch self {
        case .acquire: .lockAcquire
        case .take: .limitTake
        case .permit: .permitAcquire
        }
    }
}

/// A Redis command: its name, its conditions and its implementation.
struct Command: Sendable {
    struct Flags: OptionSet, Sendable {
        let rawValue: Int

        static let read = Flags(rawValue: 1 << 0)
        static let write = Flags(rawValue: 1 << 1)
        /// Refused when the server is out of memory.
        static let needsMemory = Flags(rawValue: 1 << 2)
        /// Forbidden in scripts.
        static let noScript = Flags(rawValue: 1 << 3)
        static let whileLoading = Flags(rawValue: 1 << 4)
        static let whileBusy = Flags(rawValue: 1 << 5)
        /// Allowed on a subscribed connection, unlike all others.
        static let whileSubscribed = Flags(rawValue: 1 << 6)
    }

    /// The arguments that are keys.
    enum Keys: Sendable {
        case none
        case first
        case all
        /// The number of keys is the second argument, and the keys follow it.
        case counted
        /// The first argument, or all arguments, are channels that belong to a hash slot.
        case channel, channels

        var areChannels: Bool {
            switch self {
            case .channel, .channels: true
            case .none, .first, .all, .counted: false
            }
        }
    }

    typealias Body = @Sendable (SimulatedServer, Invocation) throws(CommandError) -> Reply

    /// The name in lower case. A subcommand is written `client|id`.
    let name: String
    /// The number of words including the name; a negative number is a minimum.
    let arity: Int
    let flags: Flags
    let keys: Keys
    let body: Body

    init(_ name: String, _ arity: Int, _ flags: Flags, _ keys: Keys = .none, _ body: @escaping Body) {
        self.name = name
        self.arity = arity
        self.flags = flags
        self.keys = keys
        self.body = body
    }

    func allowsArgumentCount(_ count: Int) -> Bool { arity < 0 ? count >= -arity : count == arity }

    func keys(in arguments: [Bytes]) -> ArraySlice<Bytes> {
        switch keys {
        case .none, .channel, .channels: []
        case .first: arguments[1...1]
        case .all: arguments[1...]
        case .counted:
            arguments[3...].prefix(arguments[2].integer.flatMap { Int(exactly: $0) }.map { max(0, $0) } ?? 0)
        }
    }
}

extension Command {
    /// Returns the keys, or the sharded channels, that determine a command's hash slot.
    func slotKeys(in arguments: [Bytes]) -> ArraySlice<Bytes> {
        switch keys {
        case .none, .first, .all: return keys(in: arguments)
        case .channel: return arguments[1...1]
        case .channels: return arguments[1...]
        case .counted:
            // The command itself rejects a count that is too large or not a number.
            guard let count = arguments[2].integer, (0...Int64(arguments.count - 3)).contains(count) else { return [] }
            return arguments[3..<3 + Int(count)]
        }
    }
}

/// One execution of a command.
struct Invocation {
    let command: Command
    /// The arguments, including the command's name.
    let arguments: [Bytes]
    /// The client's connection; for a command of a script, the connection of the script's caller.
    let connection: SimulatedConnection

    subscript(index: Int) -> Bytes { arguments[index] }

    var count: Int { arguments.count }

    func integer(_ index: Int) throws(CommandError) -> Int64 {
        guard let number = arguments[index].integer else { throw .notAnInteger }
        return number
    }

    func double(_ index: Int) throws(CommandError) -> Double {
        guard let number = arguments[index].double else { throw .notAFloat }
        return number
    }
}

/// The commands that a server supports, by name.
struct CommandTable: Sendable {
    /// The commands that only have subcommands.
    private let containers: Set<Bytes>
    private let commands: [Bytes: Command]
    private let uppercaseCommands: [Bytes: Command]

    init(_ commands: [Command]) {
        containers = Set(
            commands.compactMap { command in
                command.name.firstIndex(of: "|").map { Bytes(String(command.name[..<$0])) }
            })
        self.commands = Dictionary(uniqueKeysWithValues: commands.map { (Bytes($0.name), $0) })
        uppercaseCommands = Dictionary(uniqueKeysWithValues: commands.map { (Bytes($0.name.uppercased()), $0) })
    }

    func command(_ arguments: [Bytes]) -> Command? {
        // Most clients send the name in capitals, and this lookup copies nothing.
        if let command = uppercaseCommands[arguments[0]] { return command }
        let name = arguments[0].lowercased
        guard containers.contains(name), arguments.count > 1 else { return commands[name] }
        return commands[Bytes(name.storage + [UInt8(ascii: "|")] + arguments[1].lowercased.storage)]
    }

    /// Returns the command that a client requests.
    func find(_ arguments: [Bytes]) throws(CommandError) -> Command {
        guard let command = command(arguments) else { throw unknown(arguments) }
        guard command.allowsArgumentCount(arguments.count) else { throw .wrongNumberOfArguments(command.name) }
        return command
    }

    private func unknown(_ arguments: [Bytes]) -> CommandError {
        let name = arguments[0]
        if containers.contains(name.lowercased) {
            guard arguments.count > 1 else { return .wrongNumberOfArguments(name.lowercased.text) }
            return CommandError(
                "ERR unknown subcommand '\(Self.prefix(arguments[1]))'. Try \(name.text.uppercased()) HELP.")
        }
        var quoted = ""
        for argument in arguments.dropFirst() where quoted.utf8.count < 128 {
            quoted += "'\(Self.prefix(argument, of: 128 - quoted.utf8.count))' "
        }
        return CommandError("ERR unknown command '\(Self.prefix(name))', with args beginning with: \(quoted)")
    }

    private static func prefix(_ bytes: Bytes, of length: Int = 128) -> String {
        String(decoding: bytes.storage.prefix(length), as: UTF8.self)
    }
}

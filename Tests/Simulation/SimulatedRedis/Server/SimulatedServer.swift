/// A Redis server as a deterministic simulation runs it: RESP2 in, RESP2 out, on one thread, with the clock it is given and
/// no chance. It behaves as Redis 7.0.15 does, for the commands it knows, and runs scripts in the same Lua.
package final class SimulatedServer {
    static let version = "7.0.15"

    /// What is wrong with a server.
    package enum Condition: Hashable, Sendable {
        case serving
        /// Reads its data from disk.
        case loading
        /// A replica. It deletes nothing by itself, and hides what has expired.
        case readOnly
        case outOfMemory
        /// A script does not come to its end.
        case busy
        /// Cannot save its data.
        case misconfigured
    }

    package var condition = Condition.serving
    /// How many replicas `WAIT` says have acknowledged, at once.
    package var replicasAcknowledging = 0
    /// All data: a copy is a snapshot. To put one back, see `restart(with:)`.
    package internal(set) var keyspace = Keyspace()

    var subscriptions = Subscriptions()
    /// The oldest first.
    private(set) var connections: [SimulatedConnection] = []
    private(set) lazy var scripts = ScriptEngine(server: self)
    /// The time at which the command that runs began: for it, and for the script that it is, time stands still.
    private(set) var microseconds: Int64 = 0

    let commands: CommandTable
    private let now: () -> Int64
    private var tracking = TrackingTable()
    private var lastConnectionID: Int64 = 0
    /// Those with output to hand out, in the order in which it came up.
    private var writers: [SimulatedConnection] = []
    /// Who sent the command that runs.
    private var current: SimulatedConnection?
    /// What the connection that runs a command is to hear of its own changes, behind the reply; `nil`: of all keys.
    private var pendingInvalidations: [Bytes?] = []

    /// - Parameter now: the server's wall clock, in microseconds of the Unix epoch. It may jump.
    init(commands: CommandTable, now: @escaping () -> Int64) {
        self.commands = commands
        self.now = now
    }

    var milliseconds: Int64 { microseconds / 1000 }

    // MARK: Life

    /// Opens a connection. `output` gets what the server sends.
    package func connect(_ output: @escaping ([UInt8]) -> Void) -> SimulatedConnection {
        lastConnectionID += 1
        let connection = SimulatedConnection(id: lastConnectionID, server: self, output: output)
        connections.append(connection)
        return connection
    }

    /// Ends all connections, forgets scripts and subscriptions, and goes on with this data.
    package func restart(with keyspace: Keyspace) {
        self.keyspace = keyspace
        tracking.forgetAll()
        flushScripts()
        lastConnectionID = 0
        let ended = connections
        connections = []
        for connection in ended { connection.closeByServer() }
    }

    /// Forgets all scripts, as `SCRIPT FLUSH` does.
    package func flushScripts() {
        scripts = ScriptEngine(server: self)
    }

    /// Deletes the keys that have expired, as Redis does in the background: who tracks them hears of it.
    package func removeExpiredKeys() {
        guard condition != .readOnly else { return }
        microseconds = now()
        for entry in Array(keyspace.all) { _ = self.entry(entry.key) }
        flushOutput()
    }

    func connection(_ id: Int64) -> SimulatedConnection? {
        connections.first { $0.id == id }
    }

    func forget(_ connection: SimulatedConnection) {
        subscriptions.removeAll(of: connection)
        connections.removeAll { $0 === connection }
    }

    // MARK: Output

    func hasOutput(_ connection: SimulatedConnection) {
        writers.append(connection)
    }

    /// Whoever is handed output may send the next command at once.
    func flushOutput() {
        while !writers.isEmpty { writers.removeFirst().flush() }
    }

    // MARK: Commands

    /// Runs a client's command.
    func execute(_ arguments: [Bytes], from connection: SimulatedConnection) -> Reply {
        microseconds = now()
        current = connection
        defer { current = nil }
        do throws(CommandError) {
            let command = try commands.find(arguments)
            if let refusal = refusal(of: command, from: connection) { throw refusal }
            return try run(Invocation(command: command, arguments: arguments, connection: connection), for: nil)
        } catch {
            return .error(error.text)
        }
    }

    /// Runs a command that is allowed; `script`: of which it is a part.
    func run(_ call: Invocation, for script: Invocation?) throws(CommandError) -> Reply {
        // What a read finds is remembered also when it answers with an error.
        defer {
            if call.command.flags.contains(.read), call.connection.tracking != nil {
                // Of a script, all its keys: those that it reads are not told apart.
                let reader = script ?? call
                tracking.remember(reader.command.keys(in: reader.arguments), readBy: call.connection)
            }
        }
        return try call.command.body(self, call)
    }

    private func refusal(of command: Command, from connection: SimulatedConnection) -> CommandError? {
        let flags = command.flags
        switch condition {
        case .outOfMemory where flags.contains(.needsMemory): return .outOfMemory
        case .misconfigured where flags.contains(.write) || command.name == "ping": return .misconfigured
        case .readOnly where flags.contains(.write): return .readOnly
        default: break
        }
        if connection.isSubscribed, !flags.contains(.whileSubscribed) {
            return CommandError(
                "ERR Can't execute '\(command.name)': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are "
                    + "allowed in this context")
        }
        switch condition {
        case .loading where !flags.contains(.whileLoading): return .loading
        case .busy where !flags.contains(.whileBusy): return .busy
        default: return nil
        }
    }

    // MARK: Tracking

    /// Every change of a key comes by here.
    func signalChange(of key: Bytes) {
        for id in tracking.forget(key) {
            guard let reader = connection(id), let options = reader.tracking else { continue }
            if reader !== current {
                invalidate([key], for: reader)
            } else if !options.isForOthersOnly {
                pendingInvalidations.append(key)
            }
        }
    }

    func removeAllKeys() {
        keyspace = Keyspace()
        tracking.forgetAll()
        for connection in connections where connection.tracking != nil {
            if connection === current {
                pendingInvalidations.append(nil)
            } else {
                invalidate(nil, for: connection)
            }
        }
    }

    func tellPendingInvalidations(to connection: SimulatedConnection) {
        guard !pendingInvalidations.isEmpty else { return }
        let keys = pendingInvalidations
        pendingInvalidations = []
        for key in keys { invalidate(key.map { [$0] }, for: connection) }
    }

    private func invalidate(_ keys: [Bytes]?, for reader: SimulatedConnection) {
        guard let redirect = reader.tracking?.redirect, let target = connection(redirect), target.isSubscribed else {
            return
        }
        target.push(
            .array([.bulk("message"), .bulk(TrackingTable.channel), keys.map { .bulks($0) } ?? .null]))
    }
}

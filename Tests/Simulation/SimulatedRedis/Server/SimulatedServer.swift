/// A deterministic Redis server that speaks RESP2, on one thread, with a given clock and without randomness. Commands
/// behave as in Redis 7.0.15, and scripts run in the same version of Lua.
package final class SimulatedServer {
    static let version = "7.0.15"

    /// The condition of the server, which determines the commands that it refuses.
    package enum Condition: Hashable, Sendable {
        case serving
        /// Loading data from disk.
        case loading
        /// A read-only replica, which hides expired keys but does not delete them.
        case readOnly
        case outOfMemory
        /// Running a script that does not end.
        case busy
        /// Unable to save its data.
        case misconfigured
    }

    package var condition = Condition.serving
    /// The number of replicas that `WAIT` reports without a delay, if `replication` is `nil`.
    package var acknowledgingReplicaCount = 0
    /// All data. A copy is a snapshot; `restart(with:)` restores one.
    package internal(set) var keyspace = Keyspace()
    /// The server's role in replication; `nil` if it neither has replicas nor is one.
    package var replication: Replication?
    /// The setting `replica-read-only`. Without it, writes by clients to a replica are lost at its next
    /// synchronization.
    package var isReplicaReadOnly = true
    /// Receives the changes of each command, if the server has `replication`.
    package var onUpdate: ((ReplicationUpdate) -> Void)?
    /// An edit of each script that a client loads, which keeps the script's digest; `nil` leaves scripts unchanged.
    package var scriptEdit: ScriptEdit?
    /// Receives each call of a script, after the script has run.
    package var onScriptCall: ((ScriptCall) -> Void)?
    /// Runs a closure after this many microseconds; `nil` if the server has no timers. `WAIT` then never times out.
    package var schedule: ((Int64, @escaping () -> Void) -> Void)?
    /// The server's view of its cluster; `nil` if it is not part of one.
    package var cluster: ClusterMember?
    /// Receives the messages that clients publish on this server of a cluster, for the other servers.
    package var onClusterPublish: ((PublishedMessage) -> Void)?
    /// The state of a Sentinel; `nil` if the server is not one.
    package var sentinel: SentinelState?

    var pendingUpdate = PendingUpdate()
    var lastWaitNumber: UInt64 = 0
    var subscriptions = Subscriptions()
    /// The open connections, oldest first.
    private(set) var connections: [SimulatedConnection] = []
    private(set) lazy var scripts = ScriptEngine(server: self)
    /// The time at which the running command began, as Unix time in microseconds. Time does not advance during a
    /// command or script.
    private(set) var microseconds: Int64 = 0

    let commands: CommandTable
    /// Returns the wall clock's time, as Unix time in microseconds.
    private let readMicroseconds: () -> Int64
    private var tracking = TrackingTable()
    private var lastConnectionID: Int64 = 0
    private var restartCount = 0
    /// Connections with unsent output, in order.
    private var connectionsWithOutput: [SimulatedConnection] = []
    /// The sender of the running command.
    private var current: SimulatedConnection?
    /// The keys that the running command changed and its own connection tracks; `nil` stands for all keys. The
    /// notifications follow the reply.
    private var pendingInvalidations: [Bytes?] = []

    /// Creates an empty server.
    /// - Parameter now: returns the time of the server's wall clock, as Unix time in microseconds. It may jump.
    init(commands: CommandTable, now: @escaping () -> Int64) {
        self.commands = commands
        readMicroseconds = now
    }

    var milliseconds: Int64 { microseconds / 1000 }
    package var connectionCount: Int { connections.count }

    /// Closes the first connection that has subscriptions.
    package func closeSubscriber() { connections.first { $0.isSubscribed }?.closeByServer() }

    /// Whether `INFO` contains the run ID. `false` simulates a user who may not run `INFO` and therefore cannot learn
    /// the ID.
    package var reportsRunID = true

    /// The run ID: 40 hexadecimal digits, different for each server and after each restart. Worlds compare run IDs and
    /// draw nothing from them.
    var runID: String {
        func digits(_ number: UInt, _ count: Int) -> String {
            let digits = String(number, radix: 16)
            return String(repeating: "0", count: max(0, count - digits.count)) + digits
        }
        return digits(UInt(bitPattern: ObjectIdentifier(self)), 20) + digits(UInt(restartCount), 20)
    }

    // MARK: Life cycle

    /// Opens a connection. `output` receives what the server sends.
    package func connect(_ output: @escaping ([UInt8]) -> Void) -> SimulatedConnection {
        lastConnectionID += 1
        let connection = SimulatedConnection(id: lastConnectionID, server: self, output: output)
        connections.append(connection)
        return connection
    }

    /// Closes all connections, drops scripts and subscriptions, and continues with the given data.
    package func restart(with keyspace: Keyspace) {
        self.keyspace = keyspace
        pendingUpdate = PendingUpdate()
        replication?.replicas = []
        replication?.isLinked = false
        tracking.forgetAll()
        flushScripts()
        lastConnectionID = 0
        restartCount += 1
        let formerConnections = connections
        connections = []
        for connection in formerConnections { connection.closeByServer() }
    }

    /// Replaces the server behind this address with another one that has all data. Open connections stay with the
    /// former server, which is now read-only and receives no further data.
    ///
    /// - Returns: the former server, which the caller must retain.
    package func handOver() -> SimulatedServer {
        let former = SimulatedServer(commands: commands, now: readMicroseconds)
        former.keyspace = keyspace
        former.condition = .readOnly
        former.scriptEdit = scriptEdit
        former.lastConnectionID = lastConnectionID
        (former.connections, former.subscriptions, former.tracking) = (connections, subscriptions, tracking)
        for connection in connections { connection.server = former }
        (connections, subscriptions, tracking) = ([], Subscriptions(), TrackingTable())
        flushScripts()
        restartCount += 1
        return former
    }

    /// Drops all scripts, as `SCRIPT FLUSH` does.
    package func flushScripts() {
        scripts = ScriptEngine(server: self)
    }

    /// Deletes expired keys, as Redis does in the background. Tracking connections are notified.
    package func removeExpiredKeys() {
        guard !isReplica else { return }
        microseconds = readMicroseconds()
        for entry in Array(keyspace.all) { _ = self.entry(entry.key) }
        reportChanges()
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

    func scheduleFlush(_ connection: SimulatedConnection) {
        connectionsWithOutput.append(connection)
    }

    /// Sends all pending output. The receiver of output may send its next command immediately.
    func flushOutput() {
        while !connectionsWithOutput.isEmpty { connectionsWithOutput.removeFirst().flush() }
    }

    // MARK: Commands

    /// Runs a client's command.
    func execute(_ arguments: [Bytes], from connection: SimulatedConnection) -> Reply {
        microseconds = readMicroseconds()
        current = connection
        defer { current = nil }
        let reply = outcome(of: arguments, from: connection)
        reportChanges()
        connection.offset = replication?.offset ?? 0
        // Any command other than ASKING itself clears the flag, even if it fails.
        if connection.isAsking, !arguments[0].isWord("asking") { connection.isAsking = false }
        return reply
    }

    private func outcome(of arguments: [Bytes], from connection: SimulatedConnection) -> Reply {
        do throws(CommandError) {
            let command = try commands.find(arguments)
            if let cluster, let refusal = refusal(of: command, arguments, from: connection, by: cluster) { throw refusal.error }
            if let refusal = refusal(of: command, from: connection) { throw refusal }
            return try run(Invocation(command: command, arguments: arguments, connection: connection), for: nil)
        } catch {
            return .error(error.text)
        }
    }

    /// Runs an allowed command. `script` is the script that calls it; `nil` if a client sent it.
    func run(_ call: Invocation, for script: Invocation?) throws(CommandError) -> Reply {
        // A read is tracked even if it fails.
        defer {
            if call.command.flags.contains(.read), call.connection.tracking != nil {
                // All keys of a script are tracked, because its reads are unknown.
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
        default: break
        }
        if isReadOnly, flags.contains(.write) { return .readOnly }
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

    /// Records a change of a key and notifies tracking connections. All code that changes a key must call this.
    func signalChange(of key: Bytes) {
        if replication != nil { pendingUpdate.change(key) }
        for id in tracking.forget(key) {
            guard let reader = connection(id), let options = reader.tracking else { continue }
            if reader !== current {
                invalidate([key], for: reader)
            } else if !options.ignoresOwnChanges {
                pendingInvalidations.append(key)
            }
        }
    }

    func removeAllKeys() {
        keyspace = Keyspace()
        if replication != nil { pendingUpdate.removeAll() }
        tracking.forgetAll()
        for connection in connections where connection.tracking != nil {
            if connection === current {
                pendingInvalidations.append(nil)
            } else {
                invalidate(nil, for: connection)
            }
        }
    }

    func sendPendingInvalidations(to connection: SimulatedConnection) {
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

/// All subscriptions, in the order in which they were made.
struct Subscriptions {
    private var channels = ListenerLists<Bytes>()
    private var patterns = ListenerLists<GlobPattern>()
    /// The sharded channels, which belong to a hash slot of a cluster.
    private var shards = ListenerLists<Bytes>()

    mutating func add(_ connection: SimulatedConnection, to channel: Bytes) {
        channels.add(connection.id, to: channel)
    }

    mutating func add(_ connection: SimulatedConnection, toPattern pattern: GlobPattern) {
        patterns.add(connection.id, to: pattern)
    }

    mutating func remove(_ connection: SimulatedConnection, from channel: Bytes) {
        channels.remove(connection.id, from: channel)
    }

    mutating func remove(_ connection: SimulatedConnection, fromPattern pattern: GlobPattern) {
        patterns.remove(connection.id, from: pattern)
    }

    mutating func add(_ connection: SimulatedConnection, toShard channel: Bytes) {
        shards.add(connection.id, to: channel)
    }

    mutating func remove(_ connection: SimulatedConnection, fromShard channel: Bytes) {
        shards.remove(connection.id, from: channel)
    }

    mutating func removeAll(of connection: SimulatedConnection) {
        for channel in shardChannels(of: connection) { remove(connection, fromShard: channel) }
        for channel in channels(of: connection) { remove(connection, from: channel) }
        for pattern in patterns(of: connection) { remove(connection, fromPattern: pattern) }
    }

    func channels(of connection: SimulatedConnection) -> [Bytes] { channels.subjects(of: connection.id) }

    func patterns(of connection: SimulatedConnection) -> [GlobPattern] { patterns.subjects(of: connection.id) }

    func shardChannels(of connection: SimulatedConnection) -> [Bytes] { shards.subjects(of: connection.id) }

    /// Returns whether the connection has any subscription.
    func isListening(_ connection: SimulatedConnection) -> Bool {
        count(of: connection) > 0 || !shardChannels(of: connection).isEmpty
    }

    func count(of connection: SimulatedConnection) -> Int {
        channels(of: connection).count + patterns(of: connection).count
    }

    /// Publishes a message. Returns the number of receivers; a connection with two matching subscriptions counts twice.
    func publish(_ message: Bytes, on channel: Bytes, from server: SimulatedServer) -> Int {
        var receiverCount = 0
        for id in channels.listeners[channel] ?? [] {
            server.connection(id)?.push(.bulks(["message", channel, message]))
            receiverCount += 1
        }
        for pattern in patterns.subjects where pattern.matches(channel) {
            for id in patterns.listeners[pattern] ?? [] {
                server.connection(id)?.push(.bulks(["pmessage", pattern.bytes, channel, message]))
                receiverCount += 1
            }
        }
        return receiverCount
    }
}

extension Subscriptions {
    /// Publishes a message on a sharded channel. Returns the number of receivers.
    func publishToShard(_ message: Bytes, on channel: Bytes, from server: SimulatedServer) -> Int {
        let listeners = shards.listeners[channel] ?? []
        for id in listeners { server.connection(id)?.push(.bulks(["smessage", channel, message])) }
        return listeners.count
    }
}

/// The listeners of each subject, and the subjects of each listener.
private struct ListenerLists<Subject: Hashable> {
    /// The subjects that have listeners, oldest first.
    private(set) var subjects: [Subject] = []
    private(set) var listeners: [Subject: [Int64]] = [:]
    private var subjectsOfListener: [Int64: [Subject]] = [:]

    func subjects(of listener: Int64) -> [Subject] { subjectsOfListener[listener] ?? [] }

    mutating func add(_ listener: Int64, to subject: Subject) {
        guard !subjects(of: listener).contains(subject) else { return }
        if listeners[subject] == nil { subjects.append(subject) }
        listeners[subject, default: []].append(listener)
        subjectsOfListener[listener, default: []].append(subject)
    }

    mutating func remove(_ listener: Int64, from subject: Subject) {
        listeners[subject]?.removeAll { $0 == listener }
        subjectsOfListener[listener]?.removeAll { $0 == subject }
        if subjectsOfListener[listener]?.isEmpty ?? false { subjectsOfListener[listener] = nil }
        if listeners[subject]?.isEmpty ?? false {
            listeners[subject] = nil
            subjects.removeAll { $0 == subject }
        }
    }
}

/// The keys that each connection has read, for `CLIENT TRACKING`. `forget` drops a changed key.
struct TrackingTable {
    static let channel: Bytes = "__redis__:invalidate"

    /// The options of a tracking connection.
    struct Options {
        /// The connection that receives notifications; `nil` if there is none. RESP2 requires a separate connection.
        var redirect: Int64?
        /// The `NOLOOP` option: the connection is not notified of its own changes.
        var ignoresOwnChanges: Bool
    }

    private var readers: [Bytes: [Int64]] = [:]

    mutating func remember(_ keys: some Sequence<Bytes>, readBy connection: SimulatedConnection) {
        for key in keys where !(readers[key]?.contains(connection.id) ?? false) {
            readers[key, default: []].append(connection.id)
        }
    }

    /// Drops a key. Returns its readers, the oldest connection first.
    mutating func forget(_ key: Bytes) -> [Int64] {
        readers.isEmpty ? [] : readers.removeValue(forKey: key)?.sorted() ?? []
    }

    mutating func forgetAll() {
        readers = [:]
    }
}

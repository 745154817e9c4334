internal import Glibc
internal import Interlock
internal import InterlockCore
internal import NIOCore

/// The commands about the connection itself: the Redis commands that common clients need in order to connect.
extension RESPCommands {
    func runConnectionCommand(
        _ command: RESPCommandTable.Command, _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection
    ) throws(InterlockError) {
        switch command {
        case .ping:
            connection.reply(tag) { writer in
                if connection.session.followerID != nil, !writer.speaksRESP3 {
                    writer.array(2)
                    writer.bulk("pong")
                    if request.count > 1 { writer.bulk(request.argument(1)) } else { writer.bulk("") }
                } else if request.count > 1 {
                    writer.bulk(request.argument(1))
                } else {
                    writer.simple("PONG")
                }
            }
        case .echo:
            connection.reply(tag) { $0.bulk(request.argument(1)) }
        case .auth:
            authenticate(request, tag, connection)
        case .hello:
            hello(request, tag, connection)
        case .client:
            client(request, tag, connection)
        case .command:
            try describeCommands(request, tag, connection)
        case .info:
            let report = SidecarReport(
                status: coordinator.status, connectionCount: connection.listener.connectionCount, eventChannel: eventChannel
            ).text
            connection.reply(tag) { $0.bulk(report) }
        case .select:
            guard request.integer(1) == 0 else {
                throw InterlockError(.invalid, "a sidecar has only database 0; the database of Redis is set in its configuration")
            }
            connection.reply(tag) { $0.simple("OK") }
        case .quit:
            connection.reply(tag) { $0.simple("OK") }
            connection.closeAfterReplies(endedBy: .client)
        case .reset:
            connection.speaksRESP3 = false
            connection.session.caller = connection.listener.access.anonymous
            connection.session.name = ""
            connection.session.receivesLosses = false
            unfollow(connection)
            connection.reply(tag) { $0.simple("RESET") }
        case .subscribe:
            try subscribe(request, tag, connection)
        case .unsubscribe:
            let channel = request.count > 1 ? request.text(1) : eventChannel
            // Some clients unsubscribe from a channel that they never subscribed to, as a liveness check.
            if channel == eventChannel { unfollow(connection) }
            let isStillSubscribed = connection.session.followerID != nil
            connection.reply(tag) { writer in
                writer.push(3)
                writer.bulk("unsubscribe")
                writer.bulk(channel)
                writer.integer(isStillSubscribed ? 1 : 0)
            }
        default:
            preconditionFailure("RESPCommands runs \(command) itself")
        }
    }

    private func authenticate(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) {
        let access = connection.listener.access
        guard access.requiresKey else {
            // This is Redis's wording, which clients recognize. They then continue without a key.
            connection.reply(tag) {
                $0.error(
                    "ERR",
                    "AUTH <password> called without any password configured for the default user: this sidecar has no API keys")
            }
            return
        }
        let hasName = request.count == 3
        let name = hasName ? request.text(1) : nil
        guard let caller = Self.caller(access, name: name, key: request.text(hasName ? 2 : 1)) else {
            connection.listener.recordRefusedLogin(of: connection)
            connection.reply(tag) { $0.error("WRONGPASS", "unknown API key, or the wrong name for it") }
            return
        }
        connection.session.caller = caller
        connection.reply(tag) { $0.simple("OK") }
    }

    /// Returns the caller with this key. Clients that have only a password send the user name "default".
    private static func caller(_ access: AccessControl, name: String?, key: String) -> AccessControl.Caller? {
        access.caller(key: key, name: name == "default" ? nil : name)
    }

    private func hello(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) {
        var version: Int64?
        if request.count > 1 {
            version = request.integer(1)
            guard version == 2 || version == 3 else {
                connection.reply(tag) { $0.error("NOPROTO", "unsupported protocol version; expected 2 or 3") }
                return
            }
        }
        var index = 2
        var caller = connection.session.caller
        var name: String?
        while index < request.count {
            if request.isWord(index, "AUTH"), index + 2 < request.count {
                let access = connection.listener.access
                caller =
                    Self.caller(access, name: request.text(index + 1), key: request.text(index + 2)) ?? access.anonymous
                guard caller != nil else {
                    connection.listener.recordRefusedLogin(of: connection)
                    connection.reply(tag) { $0.error("WRONGPASS", "unknown API key, or the wrong name for it") }
                    return
                }
                index += 3
            } else if request.isWord(index, "SETNAME"), index + 1 < request.count {
                name = request.text(index + 1)
                index += 2
            } else {
                connection.reply(tag) { $0.error("ERR", "syntax error in HELLO near '\(Excerpt(request.text(index)))'") }
                return
            }
        }
        guard caller != nil else {
            connection.reply(tag) { $0.error("NOAUTH", "HELLO needs an API key: HELLO 3 AUTH name key") }
            return
        }
        connection.session.caller = caller
        if let name { connection.session.name = name }
        if let version { connection.speaksRESP3 = version == 3 }
        let id = connection.session.id
        connection.reply(tag) { writer in
            writer.map(7)
            writer.bulk("server")
            writer.bulk("interlock")
            writer.bulk("version")
            writer.bulk(SidecarVersion.current)
            writer.bulk("proto")
            writer.integer(writer.speaksRESP3 ? 3 : 2)
            writer.bulk("id")
            writer.integer(id)
            writer.bulk("mode")
            writer.bulk("standalone")
            writer.bulk("role")
            writer.bulk("master")
            writer.bulk("modules")
            writer.array(0)
        }
    }

    private func client(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) {
        if request.isWord(1, "ID") {
            let id = connection.session.id
            connection.reply(tag) { $0.integer(id) }
        } else if request.isWord(1, "GETNAME") {
            let name = connection.session.name
            connection.reply(tag) { $0.bulk(name) }
        } else if request.isWord(1, "SETNAME"), request.count == 3 {
            connection.session.name = request.text(2)
            connection.reply(tag) { $0.simple("OK") }
        } else if request.isWord(1, "SETINFO"), request.count == 4 {
            connection.reply(tag) { $0.simple("OK") }
        } else if request.isWord(1, "LOSSES"), request.count == 3, request.isWord(2, "ON") || request.isWord(2, "OFF") {
            guard connection.speaksRESP3 else {
                connection.reply(tag) { $0.error("INVALID", "losses are reported only over RESP3; send HELLO 3 first") }
                return
            }
            connection.session.receivesLosses = request.isWord(2, "ON")
            connection.reply(tag) { $0.simple("OK") }
        } else {
            connection.reply(tag) {
                $0.error("ERR", "unknown CLIENT subcommand; expected GETNAME, ID, LOSSES ON|OFF, SETINFO or SETNAME")
            }
        }
    }

    private func describeCommands(
        _ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection
    ) throws(InterlockError) {
        guard request.count > 1 else {
            connection.reply(tag) { writer in
                writer.array(table.all.count)
                for entry in table.all { writer.command(entry) }
            }
            return
        }
        let requestedEntries = (2..<max(2, request.count)).map { table[request.key(of: $0)] }
        if request.isWord(1, "COUNT"), request.count == 2 {
            connection.reply(tag) { $0.integer(Int64(table.all.count)) }
        } else if request.isWord(1, "INFO") {
            let entries = request.count == 2 ? table.all : requestedEntries
            connection.reply(tag) { writer in
                writer.array(entries.count)
                for entry in entries { if let entry { writer.command(entry) } else { writer.null() } }
            }
        } else if request.isWord(1, "DOCS") {
            let entries = request.count == 2 ? table.all : requestedEntries.compactMap { $0 }
            connection.reply(tag) { writer in
                writer.map(entries.count)
                for entry in entries {
                    writer.bulk(entry.name.lowercased())
                    writer.map(1)
                    writer.bulk("summary")
                    writer.bulk(entry.usage)
                }
            }
        } else if request.isWord(1, "LIST"), request.count == 2 {
            connection.reply(tag) { writer in
                writer.array(table.all.count)
                for entry in table.all { writer.bulk(entry.name.lowercased()) }
            }
        } else {
            throw InterlockError(
                .other, "unknown COMMAND subcommand or wrong number of arguments; expected COUNT, DOCS, INFO or LIST")
        }
    }

    // MARK: Events

    private func subscribe(_ request: RESPRequest, _ tag: UInt64, _ connection: RESPConnection) throws(InterlockError) {
        let channel = eventChannel
        guard request.count == 2, request.text(1) == channel else {
            throw InterlockError(.invalid, "unknown channel; a sidecar has only the channel \(channel)")
        }
        if connection.session.followerID == nil, connection.isOpen {
            connection.session.followerID = coordinator.follow { message, _ in
                connection.push { writer in
                    writer.push(3)
                    writer.bulk("message")
                    writer.bulk(channel)
                    writer.bulk(message.json)
                }
            }
        }
        connection.reply(tag) { writer in
            writer.push(3)
            writer.bulk("subscribe")
            writer.bulk(channel)
            writer.integer(1)
        }
    }

    /// Ends the connection's subscription to the events.
    private func unfollow(_ connection: RESPConnection) {
        guard let followerID = connection.session.followerID else { return }
        connection.session.followerID = nil
        connection.listener.unfollow(followerID)
    }
}

extension RESPWriter {
    /// Writes Redis 7's description of a command: its name, arity, flags, first and last key, step, categories, tips,
    /// key specifications and subcommands.
    fileprivate func command(_ entry: RESPCommandTable.Entry) {
        array(10)
        bulk(entry.name.lowercased())
        let isFixed = entry.arity.lowerBound == entry.arity.upperBound
        integer(Int64(isFixed ? entry.arity.lowerBound : -entry.arity.lowerBound))
        array(0)
        for _ in 0..<3 { integer(0) }
        for _ in 0..<4 { array(0) }
    }
}

/// The text of an `INFO` reply: sections of `key:value` lines, as in Redis.
struct SidecarReport {
    let status: CoordinatorStatus
    let connectionCount: Int
    /// The channel that `SUBSCRIBE` accepts.
    let eventChannel: String

    var text: String {
        var lines = [
            "# Sidecar", "interlock_version:\(status.version)", "id:\(status.id)", "host:\(status.host)",
            "process_id:\(getpid())", "connected_clients:\(connectionCount)", "",
            "# Redis", "redis:\(status.redis)", "redis_scope:\(status.redisScope.rawValue)",
            "redis_up:\(status.isRedisUp ? 1 : 0)",
            "redis_failure:\(status.redisFailure ?? "")", "redis_version:\(status.redisVersion ?? "")",
            "maxmemory_policy:\(status.evictionPolicy ?? "")", "redis_commands:\(status.redisCommandCount)",
        ]
        lines += topology
        lines += ["redis_replicas:\(status.replicaCount.map { "\($0)" } ?? "")", "wait_replicas:\(status.waitReplicas)"]
        lines += [
            "",
            // valkey-glide uses a server only if it reports that it is a primary.
            "# Replication", "role:master", "connected_slaves:0", "",
            "# Fleet", "sidecars:\(status.fleet.count)", "members:\(status.fleet.joined(separator: ","))",
            "event_channel:\(eventChannel)", "",
            "# Locks", "locks_held:\(status.heldLockCount)", "locks_waiting:\(status.lockWaiterCount)",
            "max_wait_ms:\(status.maximumWaitMilliseconds)", "",
            "# Services", "services:\(status.serviceCount)",
            "services_differing:\(status.servicesDiffering.joined(separator: ","))",
            "permits_under_way:\(status.inFlightPermitCount)", "permits_waiting:\(status.waitingPermitCount)",
        ]
        lines.append("")
        return lines.joined(separator: "\r\n")
    }

    /// The lines about the topology of Redis: a single server, Sentinels or a cluster.
    private var topology: [String] {
        if let cluster = status.cluster {
            return [
                "redis_topology:cluster",
                "redis_primaries:\(cluster.primaries.map { "\($0.address)=\($0.slotCount)" }.joined(separator: ","))",
                "redis_primaries_down:\(cluster.primaries.filter { !$0.isConnected }.map(\.address).joined(separator: ","))",
                "redis_epoch:\(cluster.epoch.map { "\($0)" } ?? "")", "redis_slots_covered:\(cluster.coveredSlotCount)",
                "redis_switches:\(cluster.switchCount)",
                "redis_last_switch_ms:\(cluster.lastSwitchDuration.map { "\($0.wholeMilliseconds)" } ?? "")",
            ]
        }
        guard let primary = status.primary else { return ["redis_topology:single"] }
        return [
            "redis_topology:sentinel", "redis_primary_name:\(primary.name)", "redis_primary:\(primary.address ?? "")",
            "redis_epoch:\(primary.epoch.map { "\($0)" } ?? "")", "redis_sentinels:\(primary.sentinelCount)",
            "redis_sentinels_answering:\(primary.answeringSentinelCount)", "redis_switches:\(primary.switchCount)",
            "redis_last_switch_ms:\(primary.lastSwitchDuration.map { "\($0.wholeMilliseconds)" } ?? "")",
        ]
    }
}

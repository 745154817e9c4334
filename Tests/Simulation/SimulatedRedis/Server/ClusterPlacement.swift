/// Checks whether this server may run a command, by the hash slot of its keys. The checks and their order are those of
/// `getNodeByQuery` in Redis 7.0.15.
struct ClusterPlacement {
    enum Refusal {
        case crossSlot
        /// The hash slot has no owner.
        case unassigned
        /// The server cannot reach a majority, or some hash slots have no working owner.
        case down
        /// Some of the keys are on this server, and some are not.
        case tryAgain
        case ask(Int, ClusterNode)
        case moved(Int, ClusterNode)

        var error: CommandError {
            switch self {
            case .crossSlot: CommandError("CROSSSLOT Keys in request don't hash to the same slot")
            case .unassigned: CommandError("CLUSTERDOWN Hash slot not served")
            case .down: CommandError("CLUSTERDOWN The cluster is down")
            case .tryAgain: CommandError("TRYAGAIN Multiple keys request during rehashing of slot")
            case .ask(let slot, let node): CommandError("ASK \(slot) \(node.address.host):\(node.address.port)")
            case .moved(let slot, let node): CommandError("MOVED \(slot) \(node.address.host):\(node.address.port)")
            }
        }

        /// The error for a command of a script.
        var scriptError: CommandError {
            switch self {
            case .down: CommandError("ERR Script attempted to execute a command while the cluster is down")
            case .crossSlot, .unassigned, .tryAgain, .ask, .moved:
                CommandError("ERR Script attempted to access a non local key in a cluster node")
            }
        }
    }

    var member: ClusterMember
    /// Returns whether a key is on this server.
    var exists: (Bytes) -> Bool

    /// Returns the reason not to run a command with these keys here; `nil` if this server runs it.
    ///
    /// - Parameters:
    ///   - areChannels: whether the keys are sharded channels, which need not exist on this server.
    ///   - isAsking: whether the hash slot's current owner redirected the client here with `ASK`.
    func refusal(of keys: some Collection<Bytes>, areChannels: Bool, isAsking: Bool) -> Refusal? {
        guard let first = keys.first else { return nil }
        let slot = ClusterSlot.of(first)
        guard let owner = member.owner(of: slot).flatMap({ member.node($0) }) else { return .unassigned }
        let target = owner.number == member.number ? member.migrating[slot] : nil
        let isImporting = target == nil && member.importing[slot] != nil
        var hasSeveralKeys = false
        var missingCount = 0
        var presentCount = 0
        for key in keys {
            if key != first {
                guard ClusterSlot.of(key) == slot else { return .crossSlot }
                hasSeveralKeys = true
            }
            guard target != nil || isImporting, !areChannels else { continue }
            if exists(key) { presentCount += 1 } else { missingCount += 1 }
        }
        // Sharded channels are served even if the cluster is down.
        guard member.isServing || areChannels else { return .down }
        if let target, missingCount > 0 {
            guard presentCount == 0, let node = member.node(target) else { return .tryAgain }
            return .ask(slot, node)
        }
        if isImporting, isAsking { return hasSeveralKeys && missingCount > 0 ? .tryAgain : nil }
        return owner.number == member.number ? nil : .moved(slot, owner)
    }
}

extension SimulatedServer {
    /// Returns the reason not to run a command here; `nil` if the server runs it. `connection` is the client's
    /// connection, even for commands of a script.
    func refusal(
        of command: Command, _ arguments: [Bytes], from connection: SimulatedConnection, by member: ClusterMember
    ) -> ClusterPlacement.Refusal? {
        let keys = command.slotKeys(in: arguments)
        guard !keys.isEmpty else { return nil }
        return ClusterPlacement(member: member) { [unowned self] key in entry(key) != nil }
            .refusal(of: keys, areChannels: command.keys.areChannels, isAsking: connection.isAsking)
    }
}

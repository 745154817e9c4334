import SimulatedRedis

/// Moves hash slots of a cluster to another shard, as an operator's tool does: slot by slot, key by key. It continues
/// after a failover interrupts it.
final class SlotMove {
    private let cluster: ClusterGroup
    /// The time between two steps.
    private let pause: Nanoseconds
    private var remaining: [(slot: Int, shard: Int)]
    private let done: () -> Void
    private(set) var hasEnded = false
    /// The hash slot being moved.
    private(set) var current: Int?

    /// Creates a move that has not started.
    /// - Parameters:
    ///   - slots: the hash slots and the shards that they move to.
    ///   - pause: the time between two steps.
    ///   - done: runs once all hash slots have moved.
    init(_ slots: [(slot: Int, shard: Int)], on cluster: ClusterGroup, pause: Nanoseconds, done: @escaping () -> Void) {
        self.cluster = cluster
        self.pause = pause
        remaining = slots
        self.done = done
    }

    func start() { schedule() }

    private func schedule(in nanoseconds: Nanoseconds? = nil) {
        cluster.timeline.schedule(in: nanoseconds ?? pause) { [self] in step() }
    }

    private func step() {
        guard let (slot, shard) = remaining.first else {
            hasEnded = true
            current = nil
            return done()
        }
        current = slot
        guard let target = cluster.primary(ofShard: shard), let source = cluster.owner(of: slot), cluster.isInCluster(target)
        else {
            // Retry until a failover has replaced the missing primary.
            return schedule(in: .milliseconds(20))
        }
        guard source != target else { return finish(slot) }
        let members = cluster.members
        if members[target].importing[slot] != source {
            members[target].beginMove(of: slot, from: source)
        } else if members[source].migrating[slot] != target {
            members[source].beginMove(of: slot, to: target)
        } else if let key = cluster.hosts[source].server.keys(inSlots: [slot]).first {
            cluster.hosts[source].server.move(key, to: cluster.hosts[target].server)
        } else {
            cluster.assign([slot], from: source, to: target)
        }
        schedule()
    }

    private func finish(_ slot: Int) {
        for member in cluster.members { member.endMove(of: slot) }
        remaining.removeFirst()
        schedule()
    }
}

extension ClusterGroup {
    /// Assigns hash slots, as `CLUSTER SETSLOT … NODE` at both servers does. The cluster bus informs the others.
    func assign(_ slots: [Int], from source: Int, to target: Int) {
        let (newOwner, formerOwner) = (members[target], members[source])
        let highest = newOwner.nodes.map(\.epoch).max() ?? 0
        if newOwner.myself.epoch < highest || newOwner.myself.epoch == 0 {
            newOwner.currentEpoch = max(newOwner.currentEpoch, highest) + 1
            newOwner.update(target) { $0.epoch = newOwner.currentEpoch }
        }
        for slot in slots { newOwner.endMove(of: slot) }
        newOwner.assign(slots, to: target)
        for slot in slots { formerOwner.endMove(of: slot) }
        formerOwner.assign(slots, to: target)
        // The order of the tool's two commands is irrelevant, because nothing happens between them.
        formerOwner.update(target) { $0.epoch = newOwner.myself.epoch }
        if !formerOwner.serves(source) { becomeReplica(source, of: target) }
        sendHeartbeat(target)
    }

    /// Returns the hash slots of a server that contain keys, in order.
    func occupiedSlots(of number: Int) -> [Int] { hosts[number].server.keyCounts.keys.sorted() }

    /// Moves the hash slots without keys immediately. Returns the others.
    private func moveEmpty(_ slots: [Int], from source: Int, to target: Int) -> [Int] {
        let occupied = Set(occupiedSlots(of: source))
        let empty = slots.filter { !occupied.contains($0) }
        if !empty.isEmpty { assign(empty, from: source, to: target) }
        return slots.filter { occupied.contains($0) }
    }

    /// Makes the spare server join, and moves the first part of every primary's hash slots to it. Returns `nil` if the
    /// server is already in the cluster or not running.
    func addSpare(pause: Nanoseconds, done: @escaping () -> Void) -> SlotMove? {
        let formerPrimaries = primaries
        guard !isInCluster(spare), hosts[spare].isRunning, !formerPrimaries.isEmpty else { return nil }
        join(spare)
        var occupied: [Int] = []
        for primary in formerPrimaries {
            let slots = members[primary].slots(of: primary)
            occupied += moveEmpty(
                Array(slots.prefix(slots.count / (formerPrimaries.count + 1))), from: primary, to: spare)
        }
        return SlotMove(occupied.map { (slot: $0, shard: shards[spare]) }, on: self, pause: pause, done: done)
    }

    /// Divides the spare server's hash slots among the other primaries, then removes the server. Returns `nil` if it is
    /// not a primary of the cluster.
    func removeSpare(pause: Nanoseconds, done: @escaping () -> Void) -> SlotMove? {
        let others = primaries.filter { $0 != spare }
        guard isInCluster(spare), hosts[spare].isRunning, primaries.contains(spare), !others.isEmpty else { return nil }
        var occupied: [(slot: Int, shard: Int)] = []
        let slots = members[spare].slots(of: spare)
        for (index, target) in others.enumerated() {
            let part = Array(slots[slots.count * index / others.count..<slots.count * (index + 1) / others.count])
            // The last hash slot moves separately, because the server becomes a replica with it.
            let lastSlot = index == others.count - 1 ? Array(part.suffix(1)) : []
            let moved = moveEmpty(part.filter { !lastSlot.contains($0) }, from: spare, to: target) + lastSlot
            occupied += moved.map { (slot: $0, shard: shards[target]) }
        }
        return SlotMove(occupied, on: self, pause: pause) { [weak self] in
            // All others must first learn the new owners of the server's hash slots.
            self?.timeline.schedule(in: .milliseconds(500)) { [weak self] in
                guard let self else { return }
                leave(spare)
                done()
            }
        }
    }

    /// Moves hash slots to another shard.
    func move(_ slots: [Int], toShard shard: Int, pause: Nanoseconds, done: @escaping () -> Void) -> SlotMove {
        SlotMove(slots.map { (slot: $0, shard: shard) }, on: self, pause: pause, done: done)
    }
}

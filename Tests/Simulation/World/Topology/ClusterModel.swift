import SimulatedRedis

/// The failure detection and elections of one cluster server, without I/O: which servers are down, which replica may
/// replace a primary, and whether this server serves requests. Its view of hash slots is in its `ClusterMember`.
/// Timeouts are shorter than Redis's defaults.
///
/// Source: "Redis Cluster specification", sections "Fault tolerance" and "Configuration propagation", and `cluster.c`
/// of Redis 7.0.15.
struct ClusterModel {
    /// The message that servers exchange regularly.
    struct Heartbeat {
        var node: ClusterNode
        var currentEpoch: Int64
        /// The hash slots that the sender serves, if it is a primary. A different version means that the slots may have
        /// changed.
        var slots: [Int]
        var version: UInt64
        /// The servers that the sender has not heard from within `timeout`.
        var suspects: [Int]
    }

    /// A replica's request for votes.
    struct Ballot {
        var replica: Int
        var primary: Int
        var epoch: Int64
        /// The hash slots that the replica wants, and their epoch.
        var slots: [Int]
        var slotsEpoch: Int64
    }

    /// The state of this replica's attempt to replace its primary.
    enum Election: Equatable {
        case none
        case waiting(until: Nanoseconds)
        case asking(epoch: Int64, votes: Set<Int>, began: Nanoseconds)
    }

    /// The silence after which a server suspects that another one is down.
    static let timeout: Nanoseconds = .milliseconds(600)

    private var lastHeard: [Int: Nanoseconds] = [:]
    /// The servers that suspect each server, with the time of their last report.
    private var reports: [Int: [Int: Nanoseconds]] = [:]
    private var failedSince: [Int: Nanoseconds] = [:]
    private var lastVoteEpoch: Int64
    /// The time of the last vote to replace each primary.
    private var voteTimes: [Int: Nanoseconds] = [:]
    private var election = Election.none
    private var startedAt: Nanoseconds
    /// The last time when this server reached only a minority of the primaries.
    private var lastMinority: Nanoseconds = 0
    /// The claims that were already checked, by sender: its version and epoch, and this server's version at the time.
    private var checkedClaims: [Int: (version: UInt64, epoch: Int64, ownVersion: UInt64)] = [:]

    init(member: ClusterMember, now: Nanoseconds, isNew: Bool) {
        startedAt = isNew ? now - Self.timeout : now
        lastVoteEpoch = member.currentEpoch
        for node in member.nodes { lastHeard[node.number] = now }
    }

    /// Records that this server has heard from another one.
    mutating func recordContact(_ number: Int, now: Nanoseconds) { lastHeard[number] = now }

    /// Returns the servers that this one suspects to be down.
    func suspects(_ member: ClusterMember, now: Nanoseconds) -> [Int] {
        member.nodes.map(\.number).filter { $0 != member.number && now - (lastHeard[$0] ?? 0) > Self.timeout }
    }

    // MARK: Heartbeats

    /// Processes another server's heartbeat, except for its hash slots.
    mutating func received(_ heartbeat: Heartbeat, _ member: ClusterMember, now: Nanoseconds) {
        let sender = heartbeat.node.number
        lastHeard[sender] = now
        member.currentEpoch = max(member.currentEpoch, heartbeat.currentEpoch)
        // A primary that became a replica loses its hash slots.
        if heartbeat.node.primary != nil, member.serves(sender) { member.assign(member.slots(of: sender), to: nil) }
        let canClearFailure = !member.serves(sender) || now - (failedSince[sender] ?? 0) > 2 * Self.timeout
        member.update(sender) { node in
            node.epoch = max(node.epoch, heartbeat.node.epoch)
            node.primary = heartbeat.node.primary
            if canClearFailure { node.isFailed = false }
        }
        for node in member.nodes {
            reports[node.number, default: [:]][sender] =
                member.serves(sender) && heartbeat.suspects.contains(node.number) ? now : nil
        }
        resolveCollision(with: heartbeat.node, member)
    }

    /// Resolves a tie of two primaries with the same epoch: the one with the lower ID takes a new epoch.
    private func resolveCollision(with other: ClusterNode, _ member: ClusterMember) {
        let node = member.myself
        guard node.primary == nil, other.primary == nil, node.epoch == other.epoch, node.number < other.number else { return }
        member.currentEpoch += 1
        member.update(node.number) { $0.epoch = member.currentEpoch }
    }

    /// Returns the hash slots that a primary rightfully claims, and for which this server knows another owner or none
    /// at all.
    mutating func claims(in heartbeat: Heartbeat, _ member: ClusterMember) -> [Int] {
        let sender = heartbeat.node.number
        guard heartbeat.node.primary == nil else { return [] }
        if let last = checkedClaims[sender], last.version == heartbeat.version, last.epoch == heartbeat.node.epoch,
            last.ownVersion == member.version
        {
            return []
        }
        let claimedSlots = heartbeat.slots.filter { slot in
            guard member.importing[slot] == nil else { return false }
            guard let owner = member.owner(of: slot) else { return true }
            return owner != sender && (member.node(owner)?.epoch ?? 0) < heartbeat.node.epoch
        }
        if claimedSlots.isEmpty { checkedClaims[sender] = (heartbeat.version, heartbeat.node.epoch, member.version) }
        return claimedSlots
    }

    /// Records that a majority of primaries considers a server down.
    mutating func markDown(_ number: Int, _ member: ClusterMember, now: Nanoseconds) {
        guard number != member.number else { return }
        member.update(number) { $0.isFailed = true }
        failedSince[number] = now
    }

    // MARK: Failures and elections

    /// Returns the servers that a majority of primaries suspects and that are not yet marked as down.
    func newlyFailed(_ member: ClusterMember, now: Nanoseconds) -> [Int] {
        let electors = member.primaries.map(\.number)
        return suspects(member, now: now).filter { suspect in
            guard member.node(suspect)?.isFailed == false else { return false }
            let otherCount = electors.count { elector in
                elector != member.number && now - (reports[suspect]?[elector] ?? 0) < 2 * Self.timeout
            }
            return otherCount + (electors.contains(member.number) ? 1 : 0) >= member.majority
        }
    }

    /// Updates whether this server serves requests.
    mutating func updateState(_ member: ClusterMember, now: Nanoseconds) {
        let suspects = Set(suspects(member, now: now))
        let primaries = member.primaries
        let reachedCount = primaries.count { !$0.isFailed && !suspects.contains($0.number) }
        if reachedCount < member.majority { lastMinority = now }
        let isFullyCovered = member.assignedCount == ClusterSlot.count && !primaries.contains(where: \.isFailed)
        guard isFullyCovered, reachedCount >= member.majority else {
            member.isServing = false
            return
        }
        // A server that was unreachable may not have heard yet that another one took over its hash slots.
        let isReturning = min(now - lastMinority, now - startedAt) < Self.timeout
        if !member.isReplica, !member.isServing, isReturning { return }
        member.isServing = true
    }

    /// Returns the ballot if this replica asks for votes now.
    mutating func ballot(_ member: ClusterMember, now: Nanoseconds, jitter: Nanoseconds) -> Ballot? {
        guard let primary = member.myself.primary.flatMap({ member.node($0) }), primary.isFailed, member.serves(primary.number)
        else {
            election = .none
            return nil
        }
        switch election {
        case .none: election = .waiting(until: now + jitter)
        case .waiting(let instant) where now >= instant:
            member.currentEpoch += 1
            election = .asking(epoch: member.currentEpoch, votes: [], began: now)
            return Ballot(
                replica: member.number, primary: primary.number, epoch: member.currentEpoch,
                slots: member.slots(of: primary.number), slotsEpoch: primary.epoch)
        case .asking(_, _, let began) where now - began > 2 * Self.timeout: election = .waiting(until: now + jitter)
        case .waiting, .asking: break
        }
        return nil
    }

    /// Returns whether this primary votes for a replica.
    mutating func votes(for ballot: Ballot, _ member: ClusterMember, now: Nanoseconds) -> Bool {
        member.currentEpoch = max(member.currentEpoch, ballot.epoch)
        guard !member.isReplica, member.serves(member.number), ballot.epoch == member.currentEpoch,
            lastVoteEpoch < ballot.epoch,
            member.node(ballot.primary)?.isFailed ?? false, now - (voteTimes[ballot.primary] ?? 0) > 2 * Self.timeout
        else { return false }
        let isOutdated = ballot.slots.contains { slot in
            member.owner(of: slot).flatMap { member.node($0) }.map { $0.epoch > ballot.slotsEpoch } ?? false
        }
        guard !isOutdated else { return false }
        lastVoteEpoch = ballot.epoch
        voteTimes[ballot.primary] = now
        return true
    }

    /// Counts a primary's vote for this replica. Returns the epoch of the election if the replica has won it.
    mutating func receivedVote(from elector: Int, epoch: Int64, _ member: ClusterMember) -> Int64? {
        guard case .asking(epoch, var votes, let began) = election else { return nil }
        votes.insert(elector)
        election = .asking(epoch: epoch, votes: votes, began: began)
        guard votes.count >= member.majority else { return nil }
        election = .none
        return epoch
    }
}

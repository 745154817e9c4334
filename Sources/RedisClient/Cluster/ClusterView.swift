package import NIOCore

/// The known slot map of a cluster: the primary of each hash slot. A pure value type.
///
/// Servers learn of changes at different times: a server that is cut off, or has not heard of a change yet, keeps
/// reporting its old map. Each claim to a hash slot carries the epoch of the claiming server, which rises with every
/// failover and every slot that it takes over. A claim with a lower epoch than the known one is ignored. A server that
/// redirects a command knows more than the map that led to it, so the redirection outweighs claims of the same epoch
/// for `correctionTime`. If no server can be queried, the cluster may be recreated with epochs that start over: see
/// `forgetEpochs`.
///
/// Source: "Redis Cluster specification", sections "Configuration handling, propagation, and failovers" and "MOVED
/// Redirection".
package struct ClusterView: Sendable {
    package typealias Address = RedisConfiguration.Address

    /// The primaries that serve hash slots, in a stable order.
    package private(set) var primaries: [Address] = []
    /// The known replicas of the primaries.
    package private(set) var replicas: [Address] = []
    /// The largest number of replicas of any primary.
    package private(set) var maximumReplicas = 0
    /// The host names of servers that are reached by IP address and announce one, because certificates are issued for
    /// names.
    package private(set) var hostNames: [Address: String] = [:]
    /// The maximum number of host names. Beyond it, only the host names of the last slot map are kept.
    private static let maximumHostNames = 1000
    /// The epoch of the newest known claim.
    package private(set) var epoch: Int64 = 0
    /// Whether any server has reported a slot map.
    package private(set) var isKnown = false

    /// The index in `primaries` of each hash slot's primary; `noOwnerIndex` for a slot without a primary.
    private var ownerIndices: [UInt16]
    /// The epoch of the claim that assigned each hash slot.
    private var epochs: [Int64]
    /// The redirected hash slots, each with the end of its priority over claims of the same epoch.
    private var corrections: [HashSlot: NIODeadline] = [:]

    /// The last reported slot map. Most reports repeat it and change nothing.
    private var lastSlotMap: ReportedSlotMap?

    private static let noOwnerIndex = UInt16.max
    /// The maximum number of primaries. Redis recommends at most a thousand servers.
    static let maximumPrimaries = 4096
    /// How long a redirection outweighs claims of the same epoch.
    static let correctionTime = TimeAmount.seconds(1)

    package init() {
        ownerIndices = Array(repeating: Self.noOwnerIndex, count: HashSlot.count)
        epochs = Array(repeating: 0, count: HashSlot.count)
    }

    /// Returns the index of the hash slot's primary in `primaries`; `nil` if it has no primary.
    package func index(of slot: HashSlot) -> Int? {
        let owner = ownerIndices[slot.number]
        return owner == Self.noOwnerIndex ? nil : Int(owner)
    }

    package func owner(of slot: HashSlot) -> Address? { index(of: slot).map { primaries[$0] } }

    /// The number of hash slots that each of `primaries` serves.
    package var slotCounts: [Int] {
        var counts = Array(repeating: 0, count: primaries.count)
        for owner in ownerIndices where owner != Self.noOwnerIndex { counts[Int(owner)] += 1 }
        return counts
    }

    /// The number of hash slots that have a primary.
    package var coveredSlotCount: Int { ownerIndices.count { $0 != Self.noOwnerIndex } }

    // MARK: Updates

    /// Applies the slot map of one server. O(slots).
    /// - Returns: the hash slots that have a new primary, including slots that had no primary before.
    mutating func apply(_ slotMap: ReportedSlotMap, now: NIODeadline) -> Set<HashSlot> {
        if corrections.contains(where: { $0.value <= now }) {
            corrections = corrections.filter { $0.value > now }
            // Makes the next slot map apply the claims that the expired redirections suppressed, even if it repeats the
            // last one.
            lastSlotMap = nil
        }
        guard slotMap != lastSlotMap || !corrections.isEmpty else { return [] }
        lastSlotMap = slotMap
        let previousView = self
        isKnown = true
        replicas = Self.sortedUnique(slotMap.replicas)
        maximumReplicas = slotMap.maximumReplicas
        hostNames.merge(slotMap.hostNames) { $1 }
        if hostNames.count > Self.maximumHostNames { hostNames = slotMap.hostNames }
        var claimed = Array(repeating: false, count: HashSlot.count)
        for claim in slotMap.claims {
            let epoch = slotMap.epochs[claim.id] ?? 0
            guard let index = self.index(adding: claim.primary) else { continue }
            for number in claim.slots.lowerBound.number...claim.slots.upperBound.number {
                claimed[number] = true
                guard epoch > epochs[number] || epoch == epochs[number] && mayCorrect(number, to: index) else { continue }
                ownerIndices[number] = index
                epochs[number] = epoch
            }
        }
        // An unclaimed hash slot has no primary, unless the reported map is older than the known one.
        let newestEpoch = slotMap.epochs.values.max() ?? 0
        for number in 0..<HashSlot.count where !claimed[number] && newestEpoch >= epoch {
            ownerIndices[number] = Self.noOwnerIndex
            // The next primary of the slot may have any epoch.
            epochs[number] = 0
        }
        epoch = epochs.max() ?? 0
        dropUnusedPrimaries()
        return changes(since: previousView)
    }

    /// Returns whether a claim of the known epoch may assign the hash slot to this primary.
    private func mayCorrect(_ number: Int, to index: UInt16) -> Bool {
        guard ownerIndices[number] != index, !corrections.isEmpty, let slot = HashSlot(Int64(number)) else {
            return true
        }
        return corrections[slot] == nil
    }

    /// Applies a redirection: `primary` serves the hash slot. A primary without slots stays until
    /// `dropUnusedPrimaries`.
    /// - Returns: whether the assignment is new.
    package mutating func recordMove(_ slot: HashSlot, to primary: Address, now: NIODeadline) -> Bool {
        guard owner(of: slot) != primary, let index = self.index(adding: primary) else { return false }
        ownerIndices[slot.number] = index
        corrections[slot] = now + Self.correctionTime
        lastSlotMap = nil
        return true
    }

    /// Forgets the epochs, so that any report replaces the map.
    package mutating func forgetEpochs() {
        (epoch, lastSlotMap) = (0, nil)
        for number in epochs.indices { epochs[number] = 0 }
    }

    // MARK: Primaries

    private mutating func index(adding primary: Address) -> UInt16? {
        if let index = primaries.firstIndex(of: primary) { return UInt16(index) }
        guard primaries.count < Self.maximumPrimaries else { return nil }
        primaries.append(primary)
        return UInt16(primaries.count - 1)
    }

    /// Drops the primaries that serve no hash slots and sorts the others. O(slots).
    mutating func dropUnusedPrimaries() {
        let slotCounts = slotCounts
        let remaining = Self.sortedUnique(primaries.indices.filter { slotCounts[$0] > 0 }.map { primaries[$0] })
        guard remaining != primaries else { return }
        let indices = primaries.map { primary in
            remaining.firstIndex(of: primary).map { UInt16($0) } ?? Self.noOwnerIndex
        }
        for number in ownerIndices.indices where ownerIndices[number] != Self.noOwnerIndex {
            ownerIndices[number] = indices[Int(ownerIndices[number])]
        }
        primaries = remaining
    }

    /// Removes duplicates and sorts the addresses, so that their order does not depend on the server that reports them.
    private static func sortedUnique(_ addresses: [Address]) -> [Address] {
        Set(addresses).sorted { $0.description < $1.description }
    }

    private func changes(since previousView: ClusterView) -> Set<HashSlot> {
        if previousView.primaries == primaries, previousView.ownerIndices == ownerIndices { return [] }
        var changed: Set<HashSlot> = []
        for number in 0..<Int64(HashSlot.count) {
            guard let slot = HashSlot(number), let owner = owner(of: slot), previousView.owner(of: slot) != owner else {
                continue
            }
            changed.insert(slot)
        }
        return changed
    }
}

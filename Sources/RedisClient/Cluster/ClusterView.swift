package import NIOCore

/// What is known of a cluster: which primary serves which slot. A value without I/O.
///
/// Servers do not know everything at the same time: one that is cut off, or has not heard yet, goes on saying what it knew. Each
/// claim to a slot has the epoch of the server that claims it, which rises with every failover and every slot that is taken over:
/// none is believed that is of a lower epoch than the one which is known. A server that refuses a command knows better than the map
/// that led there, and what it says stands for a moment against others of the same epoch. With no server left to ask everything may
/// have been made anew, and epochs begin again: see `forgetEpochs`.
///
/// Source: "Redis Cluster specification", sections "Configuration handling, propagation, and failovers" and "MOVED Redirection".
package struct ClusterView: Sendable {
    package typealias Address = RedisConfiguration.Address

    /// The primaries that serve slots, in an order that stays while they do.
    package private(set) var primaries: [Address] = []
    /// Their replicas, as far as is known.
    package private(set) var replicas: [Address] = []
    /// The most that one primary has.
    package private(set) var mostReplicas = 0
    /// What they are called, if they are reached by number and say so: certificates are of names.
    package private(set) var names: [Address: String] = [:]
    /// When there are more, those are forgotten that the last answer does not have.
    private static let mostNames = 1000
    /// Of the newest claim that is known.
    package private(set) var epoch: Int64 = 0
    /// Whether any server has been heard.
    package private(set) var isKnown = false

    /// Of each slot, its primary's place in `primaries`; `nobody`: it is served by none.
    private var owners: [UInt16]
    private var epochs: [Int64]
    /// What servers have refused commands for: until when no claim of the same epoch is believed against it.
    private var corrections: [HashSlot: NIODeadline] = [:]

    /// What was heard last: the same again changes nothing, and most answers are.
    private var last: ClusterAnswer?

    private static let nobody = UInt16.max
    /// The most primaries that a view can have; Redis recommends no more than a thousand servers.
    static let most = 4096
    /// For so long a correction stands.
    static let correctionTime = TimeAmount.seconds(1)

    package init() {
        owners = Array(repeating: Self.nobody, count: HashSlot.count)
        epochs = Array(repeating: 0, count: HashSlot.count)
    }

    /// Where the slot's primary stands in `primaries`; `nil`: nobody serves it.
    package func place(of slot: HashSlot) -> Int? {
        let owner = owners[slot.number]
        return owner == Self.nobody ? nil : Int(owner)
    }

    package func owner(of slot: HashSlot) -> Address? { place(of: slot).map { primaries[$0] } }

    /// How many slots each of `primaries` serves.
    package var shares: [Int] {
        var counts = Array(repeating: 0, count: primaries.count)
        for owner in owners where owner != Self.nobody { counts[Int(owner)] += 1 }
        return counts
    }

    /// How many slots are served by somebody.
    package var covered: Int { owners.count { $0 != Self.nobody } }

    // MARK: News

    /// A server has said which primaries serve what. O(slots).
    /// - Returns: the slots that have another primary now, or one where they had none.
    mutating func heard(_ answer: ClusterAnswer, now: NIODeadline) -> Set<HashSlot> {
        if corrections.contains(where: { $0.value <= now }) {
            corrections = corrections.filter { $0.value > now }
            // What they stood against is believed now.
            last = nil
        }
        guard answer != last || !corrections.isEmpty else { return [] }
        last = answer
        let before = self
        isKnown = true
        replicas = Self.inOrder(answer.replicas)
        mostReplicas = answer.mostReplicas
        names.merge(answer.names) { $1 }
        if names.count > Self.mostNames { names = answer.names }
        var claimed = Array(repeating: false, count: HashSlot.count)
        for claim in answer.claims {
            let epoch = answer.epochs[claim.id] ?? 0
            guard let place = place(adding: claim.primary) else { continue }
            for number in claim.slots.lowerBound.number...claim.slots.upperBound.number {
                claimed[number] = true
                guard epoch > epochs[number] || epoch == epochs[number] && mayCorrect(number, to: place) else { continue }
                owners[number] = place
                epochs[number] = epoch
            }
        }
        // A slot that nobody claims is nobody's, if whoever says so is not behind.
        let newest = answer.epochs.values.max() ?? 0
        for number in 0..<HashSlot.count where !claimed[number] && newest >= epoch {
            owners[number] = Self.nobody
            // Whoever gets it may have any epoch.
            epochs[number] = 0
        }
        epoch = epochs.max() ?? 0
        settle()
        return changes(since: before)
    }

    /// Whether a claim of the same epoch as is known may put this primary in a slot's place.
    private func mayCorrect(_ number: Int, to place: UInt16) -> Bool {
        guard owners[number] != place, !corrections.isEmpty, let slot = HashSlot(Int64(number)) else { return true }
        return corrections[slot] == nil
    }

    /// A server has refused a command because `primary` serves its slot. Who serves nothing any more stays until `settle`.
    /// - Returns: whether that is new.
    package mutating func moved(_ slot: HashSlot, to primary: Address, now: NIODeadline) -> Bool {
        guard owner(of: slot) != primary, let place = place(adding: primary) else { return false }
        owners[slot.number] = place
        corrections[slot] = now + Self.correctionTime
        last = nil
        return true
    }

    package mutating func forgetEpochs() {
        (epoch, last) = (0, nil)
        for number in epochs.indices { epochs[number] = 0 }
    }

    // MARK: Primaries

    private mutating func place(adding primary: Address) -> UInt16? {
        if let place = primaries.firstIndex(of: primary) { return UInt16(place) }
        guard primaries.count < Self.most else { return nil }
        primaries.append(primary)
        return UInt16(primaries.count - 1)
    }

    /// Leaves those out that serve nothing any more, and puts the others in order. O(slots).
    mutating func settle() {
        let shares = shares
        let kept = Self.inOrder(primaries.indices.filter { shares[$0] > 0 }.map { primaries[$0] })
        guard kept != primaries else { return }
        let places = primaries.map { primary in kept.firstIndex(of: primary).map { UInt16($0) } ?? Self.nobody }
        for number in owners.indices where owners[number] != Self.nobody { owners[number] = places[Int(owners[number])] }
        primaries = kept
    }

    /// The same servers are in the same order, whoever has named them.
    private static func inOrder(_ addresses: [Address]) -> [Address] {
        Set(addresses).sorted { $0.description < $1.description }
    }

    private func changes(since before: ClusterView) -> Set<HashSlot> {
        if before.primaries == primaries, before.owners == owners { return [] }
        var changed: Set<HashSlot> = []
        for number in 0..<Int64(HashSlot.count) {
            guard let slot = HashSlot(number), let owner = owner(of: slot), before.owner(of: slot) != owner else { continue }
            changed.insert(slot)
        }
        return changed
    }
}

/// Which primary serves which slot of a cluster, as far as is known. A value without I/O.
package struct SlotMap: Equatable, Sendable {
    package typealias Address = RedisConfiguration.Address

    /// The primaries that serve slots.
    package private(set) var primaries: [Address] = []
    /// Their replicas: further servers that can be asked when no primary can.
    package private(set) var replicas: [Address] = []
    /// Of each slot, its primary's place in `primaries`; `nobody`: it is served by none.
    private var owners: [UInt16]
    private static let nobody = UInt16.max
    /// The most primaries that a map can have; Redis recommends no more than a thousand servers.
    static let most = 4096

    package init() {
        owners = Array(repeating: Self.nobody, count: HashSlot.count)
    }

    /// The same servers are in the same order, whoever has named them.
    init(_ ranges: [(slots: ClosedRange<HashSlot>, primary: Address)], replicas: [Address]) {
        self.init()
        for primary in Self.inOrder(ranges.map(\.primary)) { _ = place(adding: primary) }
        for (slots, primary) in ranges { assign(slots, to: primary) }
        self.replicas = Self.inOrder(replicas)
    }

    private static func inOrder(_ addresses: [Address]) -> [Address] {
        Set(addresses).sorted { $0.description < $1.description }
    }

    /// Whether the slots are served by the same primaries.
    func serves(as other: SlotMap) -> Bool { primaries == other.primaries && owners == other.owners }

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

    /// A server has said that `primary` serves the slot.
    /// - Returns: its place in `primaries`; `nil`: there are too many.
    @discardableResult
    package mutating func assign(_ slot: HashSlot, to primary: Address) -> Int? {
        guard let place = place(adding: primary) else { return nil }
        owners[slot.number] = UInt16(place)
        return place
    }

    private mutating func assign(_ slots: ClosedRange<HashSlot>, to primary: Address) {
        guard let place = place(adding: primary) else { return }
        for slot in slots.lowerBound.number...slots.upperBound.number { owners[slot] = UInt16(place) }
    }

    private mutating func place(adding primary: Address) -> Int? {
        if let place = primaries.firstIndex(of: primary) { return place }
        guard primaries.count < Self.most else { return nil }
        primaries.append(primary)
        return primaries.count - 1
    }
}

/// What servers of a cluster say of it, and which of that is believed. A value without I/O.
///
/// A server that is cut off from the others goes on saying what it knew: whoever has heard of a later epoch is not led back by one
/// of an older. Within an epoch slots go to one server alone, the one whose epoch it is: what was left in it is not believed again, for
/// those who have voted know of an epoch before they know what came of it. With no server left to ask everything may have been made anew, and epochs begin again: see `forgetEpoch`.
package struct ClusterView: Equatable, Sendable {
    package private(set) var map = SlotMap()
    /// Of the last change that is known of; rises with every failover and every slot that gets another primary.
    package private(set) var epoch: Int64 = 0
    /// Whether any server has been heard.
    package private(set) var isKnown = false
    /// What servers said last, and what they had said before that and may not say again in this epoch.
    private var told = SlotMap()
    private var left: [SlotMap] = []
    /// The most of those that are remembered; an epoch seldom has three.
    private static let mostLeft = 32

    package init() {}

    package enum Change: Equatable {
        case unchanged
        case changed
        /// Of an older epoch than is known already.
        case outdated
    }

    /// A server has said which primaries serve what.
    package mutating func heard(_ new: SlotMap, epoch said: Int64) -> Change {
        guard said >= epoch else { return .outdated }
        if said > epoch { left = [] }
        guard !left.contains(where: { $0.serves(as: new) }) else { return .outdated }
        if isKnown, !new.serves(as: told) {
            left.append(told)
            if left.count > Self.mostLeft { left.removeFirst() }
        }
        defer { (epoch, map, told, isKnown) = (said, new, new, true) }
        return isKnown && new == map ? .unchanged : .changed
    }

    /// A server has refused a command because `primary` serves its slot: it knows better than whoever was asked for the map before.
    /// - Returns: whether that is new.
    package mutating func moved(_ slot: HashSlot, to primary: SlotMap.Address) -> Bool {
        guard map.owner(of: slot) != primary else { return false }
        map.assign(slot, to: primary)
        return true
    }

    package mutating func forgetEpoch() { (epoch, left) = (0, []) }
}

/// One server's view of its cluster: its members, and the owner of each hash slot. The views of servers may differ.
///
/// A member performs no I/O: the world's cluster bus carries messages between members.
package final class ClusterMember {
    /// A server's number in its cluster. Clients see `ClusterNode.id` instead.
    package typealias Number = Int

    package let number: Number
    /// All servers that this one knows, including itself, by number.
    package private(set) var nodes: [ClusterNode] = []
    /// The presumed owner of each hash slot; -1 if there is none.
    private var owners = [Int16](repeating: -1, count: ClusterSlot.count)
    /// The number of hash slots per server.
    private var slotCounts: [Number: Int] = [:]
    /// The version of `owners`, which rises with every change.
    package private(set) var version: UInt64 = 0
    /// The hash slots that move from this server to others (`migrating`) and from others to it (`importing`).
    package private(set) var migrating: [Int: Number] = [:]
    package private(set) var importing: [Int: Number] = [:]
    /// The highest epoch seen so far.
    package var currentEpoch: Int64 = 0
    /// Whether the server serves requests: it reaches a majority, and every hash slot has an owner that has not failed.
    package var isServing = true

    package init(_ node: ClusterNode) {
        number = node.number
        nodes = [node]
        currentEpoch = node.epoch
    }

    // MARK: Nodes

    package var myself: ClusterNode { node(number) ?? nodes[0] }
    package var isReplica: Bool { myself.primary != nil }

    package func node(_ number: Number) -> ClusterNode? { nodes.first { $0.number == number } }

    /// Adds a server, or updates its known state.
    package func learn(_ node: ClusterNode) {
        if let index = nodes.firstIndex(where: { $0.number == node.number }) {
            nodes[index] = node
        } else {
            nodes.append(node)
            nodes.sort { $0.number < $1.number }
        }
    }

    package func forget(_ number: Number) {
        nodes.removeAll { $0.number == number }
        assign(slots(of: number), to: nil)
        migrating = migrating.filter { $0.value != number }
        importing = importing.filter { $0.value != number }
    }

    package func update(_ number: Number, _ change: (inout ClusterNode) -> Void) {
        guard let index = nodes.firstIndex(where: { $0.number == number }) else { return }
        change(&nodes[index])
    }

    /// The primaries that serve hash slots.
    package var primaries: [ClusterNode] { nodes.filter { $0.primary == nil && serves($0.number) } }
    package var majority: Int { primaries.count / 2 + 1 }

    // MARK: Slots

    package func owner(of slot: Int) -> Number? { owners[slot] < 0 ? nil : Number(owners[slot]) }

    package func slots(of number: Number) -> [Int] { owners.indices.filter { Int(owners[$0]) == number } }

    package func count(of number: Number) -> Int { slotCounts[number, default: 0] }

    package func serves(_ number: Number) -> Bool { count(of: number) > 0 }

    package var assignedCount: Int { slotCounts.values.reduce(0, +) }

    package func assign(_ slots: some Sequence<Int>, to owner: Number?) {
        for slot in slots {
            if let former = self.owner(of: slot) { slotCounts[former, default: 0] -= 1 }
            if let owner { slotCounts[owner, default: 0] += 1 }
            owners[slot] = owner.map { Int16($0) } ?? -1
        }
        version += 1
    }

    package func beginMove(of slot: Int, to target: Number) { migrating[slot] = target }
    package func beginMove(of slot: Int, from source: Number) { importing[slot] = source }

    package func endMove(of slot: Int) {
        migrating[slot] = nil
        importing[slot] = nil
    }

    package func endAllMoves() { (migrating, importing) = ([:], [:]) }

    /// The runs of consecutive hash slots with one owner, in order.
    var ranges: [(slots: ClosedRange<Int>, owner: Number)] {
        var ranges: [(slots: ClosedRange<Int>, owner: Number)] = []
        var start = 0
        for slot in 1...ClusterSlot.count where slot == ClusterSlot.count || owners[slot] != owners[start] {
            if let owner = owner(of: start) { ranges.append((slots: start...(slot - 1), owner: owner)) }
            start = slot
        }
        return ranges
    }
}

/// A cluster server, as another server or the server itself sees it.
package struct ClusterNode: Hashable, Sendable {
    package var number: ClusterMember.Number
    package var address: ServerAddress
    /// The epoch of the server's hash slots. The claim with the highest epoch wins.
    package var epoch: Int64
    /// The primary that this server replicates; `nil` if it is a primary.
    package var primary: ClusterMember.Number?
    /// Whether a majority of primaries considers the server failed.
    package var isFailed = false

    package init(number: ClusterMember.Number, address: ServerAddress, epoch: Int64, primary: ClusterMember.Number? = nil) {
        self.number = number
        self.address = address
        self.epoch = epoch
        self.primary = primary
    }

    /// The node ID: 40 hexadecimal digits.
    var id: Bytes {
        let digits = String(number + 1, radix: 16)
        return Bytes(String(repeating: "0", count: 40 - digits.utf8.count) + digits)
    }
}

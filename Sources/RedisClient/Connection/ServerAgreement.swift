package import NIOCore

/// Decides which of the connections to one address must reconnect, so that all of them use the same server. A pure
/// value type.
///
/// An address may start to lead to another server, as a DNS name does after a failover, without existing connections
/// noticing. It shows when a new connection finds a different run ID, or when a server refuses a command because it is
/// a replica now. The other connections to the old server must then reconnect.
package struct ServerAgreement: Sendable {
    /// One of the connections.
    package typealias Member = Int

    private struct Peer {
        /// The run ID; `nil` if the server does not report it.
        var runID: String?
        var dialedAt: NIODeadline
    }

    /// The run IDs that the open connections have seen.
    private var peers: [Member: Peer] = [:]
    /// The number of rounds of reconnects because of different run IDs since all connections last used one server.
    private var rounds = 0
    /// The number of rounds after which run IDs are ignored, because the address evidently leads to several servers.
    package static let maximumRounds = 10

    package init() {}

    /// Whether run IDs are ignored because the address leads to several servers in turn.
    package var ignoresRunIDs: Bool { rounds >= Self.maximumRounds }

    /// Call when a connection is up.
    /// - Parameters:
    ///   - runID: the run ID of the server; `nil` if the server does not report it.
    ///   - dialedAt: when the connection was dialed.
    ///   - areOthersUp: whether every other connection is up.
    /// - Returns: the members that must reconnect: those at another server that were dialed earlier, or this one if
    ///   another was dialed later.
    package mutating func reached(
        _ member: Member, runID: String?, dialedAt: NIODeadline, areOthersUp: Bool
    ) -> [Member] {
        peers[member] = Peer(runID: runID, dialedAt: dialedAt)
        guard let runID else { return [] }
        let others = peers.filter { $0.key != member && $0.value.runID != nil && $0.value.runID != runID }
        guard !others.isEmpty else {
            if areOthersUp { rounds = 0 }
            return []
        }
        guard !ignoresRunIDs else { return [] }
        rounds += 1
        // The address leads to the server of the connection that was dialed last.
        let isOutdated = others.values.contains { $0.dialedAt > dialedAt }
        return isOutdated ? [member] : others.keys.sorted()
    }

    /// Call when a connection was lost or an attempt failed.
    /// - Parameters:
    ///   - isDemoted: whether the server reported that it is a replica, or is loading data like a new replica.
    ///   - runID: the run ID of that server, if known.
    /// - Returns: the members that must reconnect: those at that server, and those whose server is unknown.
    package mutating func lost(_ member: Member, isDemoted: Bool, runID: String?) -> [Member] {
        let peer = peers.removeValue(forKey: member)
        guard isDemoted, peer != nil || runID != nil else { return [] }
        let demoted = peer?.runID ?? runID
        return peers.filter { $0.value.runID == nil || demoted == nil || $0.value.runID == demoted }.keys.sorted()
    }

    /// Removes a connection that is closed permanently.
    package mutating func removed(_ member: Member) {
        peers[member] = nil
    }
}

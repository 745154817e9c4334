package import NIOCore

/// Decides which of the connections to one address must reconnect, so that all of them use the same server. A pure
/// value type.
///
/// An address may start to lead to another server, as a DNS name does after a failover, while existing connections stay
/// at the old server. The change shows when a new connection finds a different run ID, or when a server refuses a
/// command because it has become a replica. The other connections to the old server must then reconnect.
package struct ServerAgreement: Sendable {
    /// The number of a connection in its group.
    package typealias MemberID = Int

    private struct Peer {
        /// The run ID; `nil` if the server does not report it.
        var runID: String?
        var dialedAt: NIODeadline
    }

    /// The servers of the open connections.
    private var peers: [MemberID: Peer] = [:]
    /// The number of rounds of reconnects because of different run IDs since all connections last used one server.
    private var roundCount = 0
    /// The number of rounds after which run IDs are ignored, because the address must lead to several servers.
    package static let maximumRounds = 10

    package init() {}

    /// Whether run IDs are ignored because the address leads to several servers in turn.
    package var ignoresRunIDs: Bool { roundCount >= Self.maximumRounds }

    /// Records that a connection is up.
    /// - Parameters:
    ///   - runID: the run ID of the server; `nil` if the server does not report it.
    ///   - dialedAt: when the connection was dialed.
    ///   - areOthersUp: whether every other connection is up.
    /// - Returns: the members that must reconnect: those at another server that were dialed earlier, or this member if
    ///   another was dialed later.
    package mutating func connectionEstablished(
        _ member: MemberID, runID: String?, dialedAt: NIODeadline, areOthersUp: Bool
    ) -> [MemberID] {
        peers[member] = Peer(runID: runID, dialedAt: dialedAt)
        guard let runID else { return [] }
        let disagreeingPeers = peers.filter {
            $0.key != member && $0.value.runID != nil && $0.value.runID != runID
        }
        guard !disagreeingPeers.isEmpty else {
            if areOthersUp { roundCount = 0 }
            return []
        }
        guard !ignoresRunIDs else { return [] }
        roundCount += 1
        // The address leads to the server of the connection that was dialed last.
        let isOutdated = disagreeingPeers.values.contains { $0.dialedAt > dialedAt }
        return isOutdated ? [member] : disagreeingPeers.keys.sorted()
    }

    /// Records that a connection ended or an attempt failed.
    /// - Parameters:
    ///   - isDemoted: whether the server reported that it is a replica, or is loading data like a new replica.
    ///   - runID: the run ID of that server, if known.
    /// - Returns: the members that must reconnect: those at that server, and those whose server is unknown.
    package mutating func connectionLost(_ member: MemberID, isDemoted: Bool, runID: String?) -> [MemberID] {
        let peer = peers.removeValue(forKey: member)
        guard isDemoted, peer != nil || runID != nil else { return [] }
        let demotedRunID = peer?.runID ?? runID
        return peers.filter {
            $0.value.runID == nil || demotedRunID == nil || $0.value.runID == demotedRunID
        }.keys.sorted()
    }

    /// Forgets a connection that is closed permanently.
    package mutating func memberRemoved(_ member: MemberID) {
        peers[member] = nil
    }
}

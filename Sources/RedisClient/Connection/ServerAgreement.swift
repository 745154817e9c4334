package import NIOCore

/// Decides whether the connections to one address are at the same server. Pure.
///
/// An address may start to lead to another server, as a DNS name does after a failover, and existing connections do not
/// notice. The signs are a new connection that finds another run ID, and an existing one that is refused as by a
/// replica. The connections left behind must then leave.
package struct ServerAgreement: Sendable {
    /// One of the connections.
    package typealias Member = Int

    private struct Peer {
        /// The run ID, or `nil` if the server does not report it.
        var runID: String?
        var dialedAt: NIODeadline
    }

    /// The run IDs that the open connections have seen.
    private var peers: [Member: Peer] = [:]
    /// The number of times in a row that members were sent away because of their run IDs before all were at one server.
    private var rounds = 0
    /// The most rounds before run IDs are ignored: the address then leads to several servers in turn.
    package static let maximumRounds = 10

    package init() {}

    /// Whether run IDs are ignored, because the address leads to several servers in turn.
    package var isGivenUp: Bool { rounds >= Self.maximumRounds }

    /// Handles a connection that was dialed at `dialedAt` and is up, at the server with this run ID.
    /// - Parameter areOthersUp: whether every other connection is up.
    /// - Returns: the members that must leave: those at another server that were dialed earlier.
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
        guard !isGivenUp else { return [] }
        rounds += 1
        // The newest connection shows where the address leads.
        let isOutdated = others.values.contains { $0.dialedAt > dialedAt }
        return isOutdated ? [member] : others.keys.sorted()
    }

    /// Handles the loss of a connection, or a failed attempt.
    /// - Parameters:
    ///   - isDemoted: whether its server reported that it is not a primary that can serve.
    ///   - runID: the run ID of that server, if known.
    /// - Returns: the members that must leave: those at that server, and those whose server is unknown.
    package mutating func lost(_ member: Member, isDemoted: Bool, runID: String?) -> [Member] {
        let peer = peers.removeValue(forKey: member)
        guard isDemoted, peer != nil || runID != nil else { return [] }
        let demoted = peer?.runID ?? runID
        return peers.filter { $0.value.runID == nil || demoted == nil || $0.value.runID == demoted }.keys.sorted()
    }

    /// Forgets a connection that is closed for good.
    package mutating func removed(_ member: Member) {
        peers[member] = nil
    }
}

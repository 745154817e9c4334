package import NIOCore

/// Whether the connections to one address are at the same server. Decides alone, without I/O.
///
/// An address may come to lead to another server, as a DNS name does after a failover, and standing connections do not notice. A new
/// connection finds another run ID, or a standing one is refused as by a replica. Then the connections that were left behind must go.
package struct ServerAgreement: Sendable {
    /// One of the connections.
    package typealias Member = Int

    private struct Place {
        /// `nil`: the server does not tell it.
        var runID: String?
        var dialedAt: NIODeadline
    }

    /// The run IDs that the open connections have seen.
    private var places: [Member: Place] = [:]
    /// How often in a row members were sent away because of their run IDs before all were at one server.
    private var rounds = 0
    /// An address that leads to several servers in turn moves connections this often; then their run IDs are no longer compared.
    package static let mostRounds = 10

    package init() {}

    /// Run IDs are no longer compared: the address leads to several servers in turn.
    package var isGivenUp: Bool { rounds >= Self.mostRounds }

    /// A connection that was dialed at `dialedAt` is up, at the server with this run ID.
    /// - Parameter areOthersUp: whether every other connection is up.
    /// - Returns: the members that must leave: those at another server that were dialed earlier.
    package mutating func reached(
        _ member: Member, runID: String?, dialedAt: NIODeadline, areOthersUp: Bool
    ) -> [Member] {
        places[member] = Place(runID: runID, dialedAt: dialedAt)
        guard let runID else { return [] }
        let others = places.filter { $0.key != member && $0.value.runID != nil && $0.value.runID != runID }
        guard !others.isEmpty else {
            if areOthersUp { rounds = 0 }
            return []
        }
        guard !isGivenUp else { return [] }
        rounds += 1
        // The address leads where the newest connection is.
        let isOutdated = others.values.contains { $0.dialedAt > dialedAt }
        return isOutdated ? [member] : others.keys.sorted()
    }

    /// A connection is lost, or an attempt has failed.
    /// - Parameters:
    ///   - isDemoted: its server said that it is no primary that can serve.
    ///   - runID: of the server that an attempt has failed at, as far as it is known.
    /// - Returns: the members that must leave: those at that server, and those of which it is not known.
    package mutating func lost(_ member: Member, isDemoted: Bool, runID: String?) -> [Member] {
        let place = places.removeValue(forKey: member)
        guard isDemoted, place != nil || runID != nil else { return [] }
        let demoted = place?.runID ?? runID
        return places.filter { $0.value.runID == nil || demoted == nil || $0.value.runID == demoted }.keys.sorted()
    }

    /// A connection is closed for good.
    package mutating func removed(_ member: Member) {
        places[member] = nil
    }
}

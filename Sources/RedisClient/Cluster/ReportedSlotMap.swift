/// The slot map of a cluster that one server reports. A pure value type.
struct ReportedSlotMap: Equatable, Sendable {
    typealias Address = RedisConfiguration.Address

    struct Claim: Equatable, Sendable {
        var slots: ClosedRange<HashSlot>
        var primary: Address
        /// The primary's ID in the cluster.
        var id: String
    }

    var claims: [Claim]
    /// Additional servers to query while no primary is reachable.
    var replicas: [Address] = []
    /// The largest number of replicas of any primary.
    var maximumReplicas = 0
    /// The host names of the servers that are reached by IP address.
    var hostNames: [Address: String] = [:]
    /// The configuration epoch of each server, by server ID. If two servers claim a hash slot, the one with the higher
    /// epoch owns it. Empty if the server does not report epochs.
    var epochs: [String: Int64] = [:]

    /// The number of hash slots that a primary claims.
    var coveredSlotCount: Int { claims.reduce(0) { $0 + $1.slots.count } }
}

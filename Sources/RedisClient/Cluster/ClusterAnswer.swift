/// Which primary serves which slot of a cluster, by the word of one server. A value without I/O.
struct ClusterAnswer: Equatable, Sendable {
    typealias Address = RedisConfiguration.Address

    struct Claim: Equatable, Sendable {
        var slots: ClosedRange<HashSlot>
        var primary: Address
        /// The primary's ID in the cluster.
        var id: String
    }

    var claims: [Claim]
    /// Further servers that can be asked when no primary can.
    var replicas: [Address] = []
    /// The most that one primary has.
    var mostReplicas = 0
    /// The host names of servers that are reached by IP address.
    var names: [Address: String] = [:]
    /// The epoch of each server's configuration, by its ID; of two that claim a slot the one of the higher epoch has it. Empty: the
    /// server does not tell.
    var epochs: [String: Int64] = [:]

    /// How many slots are served by somebody.
    var covered: Int { claims.reduce(0) { $0 + $1.slots.count } }
}

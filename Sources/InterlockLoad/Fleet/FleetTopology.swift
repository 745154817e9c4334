package import InterlockJudge

/// The number and roles of the Redis servers in a fleet.
package enum FleetTopology: Hashable, Sendable {
    /// One server.
    case single
    /// A primary with this many replicas, and three Sentinels that watch them.
    case sentinel(replicas: Int)
    /// A cluster of this many primaries, each with this many replicas.
    case cluster(primaries: Int, replicas: Int)

    /// The kinds of faults that the topology supports. Sentinels and clusters report the addresses of the servers, so
    /// sidecars bypass the proxies, and the loss of a server causes a failover.
    package var faults: [FaultKind] {
        FaultKind.injectable.filter { kind in
            switch (self, kind.requirement) {
            case (_, .clients): true
            case (.single, let requirement): requirement != .replicas && requirement != .cluster
            case (.cluster, .cluster): true
            case (.cluster(_, let replicas), .replicas): replicas > 0
            case (.sentinel, .replicas): true
            case (_, .processes): kind.target == .sidecar
            case (_, .durableWrites), (_, .proxies), (_, .adjustableClock), (_, .cluster), (_, nil): false
            }
        }
    }

    /// The number of replicas per primary.
    package var replicas: Int {
        switch self {
        case .single: 0
        case .sentinel(let replicas), .cluster(_, let replicas): replicas
        }
    }
}

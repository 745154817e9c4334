package import InterlockJudge

/// How many servers the fleet's Redis is.
package enum FleetTopology: Hashable, Sendable {
    /// One.
    case single
    /// A primary with so many replicas, and three Sentinels that watch them.
    case sentinel(replicas: Int)
    /// A cluster of so many primaries, each with so many replicas.
    case cluster(primaries: Int, replicas: Int)

    /// What can be broken there. The address of a server that Sentinels or a cluster name leads past every proxy, and what befalls a
    /// single Redis is a failover there.
    package var faults: [FaultKind] {
        FaultKind.rigged.filter { kind in
            switch (self, kind.requirement) {
            case (_, .clients): true
            case (.single, let requirement): requirement != .replicas && requirement != .cluster
            case (.cluster, .cluster): true
            case (.cluster(_, let replicas), .replicas): replicas > 0
            case (.sentinel, .replicas): true
            case (_, .processes): kind.target == .sidecar
            case (_, .keptData), (_, .proxies), (_, .movableClock), (_, .cluster), (_, nil): false
            }
        }
    }

    /// The most replicas that a server has.
    package var replicas: Int {
        switch self {
        case .single: 0
        case .sentinel(let replicas), .cluster(_, let replicas): replicas
        }
    }
}

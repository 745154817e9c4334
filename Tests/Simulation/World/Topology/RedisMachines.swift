import InterlockCore
import RedisClient
import SimulatedRedis

/// The arrangement of Redis servers in a world.
enum WorldTopology: Hashable {
    case single
    /// A primary with this many replicas, and three Sentinels.
    case sentinels(replicas: Int)
    /// A cluster with this many primaries, each with a replica.
    case cluster(primaries: Int)

    var name: String {
        switch self {
        case .single: "single"
        case .sentinels: "sentinels"
        case .cluster: "cluster"
        }
    }
}

/// The machines on which a world's Redis runs.
enum RedisMachines {
    case single(RedisHost)
    case sentinels(SentinelGroup)
    case cluster(ClusterGroup)

    /// Creates the machines.
    /// - Parameters:
    ///   - delay: the range of a message's delay between two of the machines.
    ///   - random: used only if there are several machines.
    init(
        _ topology: WorldTopology, timeline: WorldTimeline, delay: ClosedRange<Nanoseconds>, driftPerBillion: Int64,
        random: SeededRandom
    ) {
        switch topology {
        case .single: self = .single(RedisHost(name: "redis", timeline: timeline, driftPerBillion: driftPerBillion))
        case .sentinels(let replicas):
            self = .sentinels(
                SentinelGroup(
                    replicas: replicas, timeline: timeline, delay: delay, random: random, driftPerBillion: driftPerBillion))
        case .cluster(let primaries):
            self = .cluster(
                ClusterGroup(
                    primaries: primaries, timeline: timeline, delay: delay, random: random, driftPerBillion: driftPerBillion))
        }
    }

    func start() {
        switch self {
        case .single: break
        case .sentinels(let group): group.start()
        case .cluster(let group): group.start()
        }
    }

    /// All machines that sidecars connect to.
    var hosts: [RedisHost] {
        switch self {
        case .single(let host): [host]
        case .sentinels(let group): group.hosts
        case .cluster(let group): group.hosts
        }
    }

    /// The machines that hold data.
    var servers: [RedisHost] {
        switch self {
        case .single(let host): [host]
        case .sentinels(let group): Array(group.hosts[group.servers])
        case .cluster(let group): group.hosts
        }
    }

    /// Returns the server that has a key now.
    func host(of key: String) -> RedisHost {
        switch self {
        case .single(let host): host
        case .sentinels(let group): group.primary
        case .cluster(let group): group.host(of: key)
        }
    }

    /// The current primaries.
    var primaries: [RedisHost] {
        switch self {
        case .single(let host): [host]
        case .sentinels(let group): [group.primary]
        case .cluster(let group): group.primaries.map { group.hosts[$0] }
        }
    }

    /// The Redis address in a sidecar's configuration.
    var address: RedisConfiguration.Address {
        switch self {
        case .single(let host): .host(host.name, port: 6379)
        case .sentinels(let group): group.address
        case .cluster(let group): group.address
        }
    }
}

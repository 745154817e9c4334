internal import InterlockCore

/// Where the clients of a run find what they need.
final class SimulatedFleet {
    let world: SimulatedWorld
    let redis: SimulatedRedis
    let hosts: [SidecarHost]
    /// Clients are numbered across all parties.
    private var clients = 0

    init(world: SimulatedWorld, redis: SimulatedRedis, hosts: [SidecarHost]) {
        self.world = world
        self.redis = redis
        self.hosts = hosts
    }

    /// The run is over.
    func end() {
        for host in hosts { host.end() }
        world.end()
    }

    func nextClient() -> Int {
        clients += 1
        return clients - 1
    }

    /// A connection to any sidecar that is up, preferably this one; `nil`: none is.
    func connect(preferring number: Int? = nil) -> (connection: ClientConnection, sidecar: Int)? {
        let first = number ?? world.pick(hosts.count)
        for offset in hosts.indices {
            let host = hosts[(first + offset) % hosts.count]
            if let connection = host.connect() { return (connection, host.number) }
        }
        return nil
    }
}

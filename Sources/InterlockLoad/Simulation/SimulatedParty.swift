internal import InterlockCore

/// What takes part in a simulated run: some rooms of the sidecars, and the clients that use them.
public enum SimulatedParty: String, Hashable, Sendable, Codable, CaseIterable {
    case locks, limits, breakers
}

/// The clients of one party in one run, and the room that they need in each sidecar.
protocol SimulatedCrowd: AnyObject {
    /// What the history of its services is judged by.
    var services: [ServiceRules] { get }
    /// The most that an operation of its clients may take beyond its wait while nothing is broken, in ms.
    var patience: Int64 { get }

    /// Gives a sidecar that starts its room.
    func furnish(_ sidecar: SimulatedSidecar)
    /// Its clients begin.
    func start(in fleet: SimulatedFleet)
    /// Its clients begin nothing new: what is under way goes on to its end.
    func stop()
    /// Nothing is under way any more.
    var isIdle: Bool { get }
}

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

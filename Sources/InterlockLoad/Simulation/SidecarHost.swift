internal import InterlockCore

/// Where a sidecar runs: its process may die and be started again, and be stopped for a while; its network to Redis may break.
final class SidecarHost {
    let number: Int
    let path: NetworkPath
    private let world: SimulatedWorld
    private let server: SimulatedRedis
    private let node: SimulatedWorld.NodeID
    private var furnish: (SimulatedSidecar) -> Void
    /// Its present life; `nil`: it is down.
    private(set) var sidecar: SimulatedSidecar?
    /// Events of others may still refer to them.
    private var former: [SimulatedSidecar] = []
    private var clients: [ClientConnection] = []

    /// - Parameter furnish: gives a new sidecar its rooms.
    init(number: Int, world: SimulatedWorld, server: SimulatedRedis, furnish: @escaping (SimulatedSidecar) -> Void) {
        self.number = number
        self.world = world
        self.server = server
        self.furnish = furnish
        path = NetworkPath(world: world)
        node = world.addNode()
    }

    var isUp: Bool { sidecar != nil }

    func start() {
        guard sidecar == nil else { return }
        let sidecar = SimulatedSidecar(number: number, world: world, server: server, path: path, node: node)
        self.sidecar = sidecar
        furnish(sidecar)
        sidecar.start()
    }

    func kill() {
        guard let sidecar else { return }
        former.append(sidecar)
        self.sidecar = nil
        world.crash(node)
        for connection in server.connections(over: path) { connection.closeAtClient() }
        let cut = clients
        clients = []
        for client in cut { client.sidecarDied() }
    }

    /// The run is over: what refers to each other is let go.
    func end() {
        kill()
        former = []
        furnish = { _ in }
    }

    func pause() { world.pause(node) }
    func resume() { world.resume(node) }

    // MARK: Its clients

    /// A new connection of a client; `nil`: it is refused, since nobody listens.
    func connect() -> ClientConnection? {
        guard let sidecar else { return nil }
        let connection = ClientConnection(world: world, sidecar: sidecar, host: self)
        clients.append(connection)
        return connection
    }

    func forget(_ connection: ClientConnection) {
        clients.removeAll { $0 === connection }
    }
}

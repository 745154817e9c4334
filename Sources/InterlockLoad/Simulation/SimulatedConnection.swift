internal import InterlockCore

/// One connection between a sidecar and Redis: what is sent in one direction arrives in order, and each side learns in its own
/// time that the other is gone.
final class SimulatedConnection {
    let number: Int
    private let world: SimulatedWorld
    private let path: NetworkPath
    private let client: SimulatedWorld.NodeID
    private let server: SimulatedWorld.NodeID
    private var lastAtServer = Instant(nanoseconds: .min)
    private var lastAtClient = Instant(nanoseconds: .min)
    /// What arrives after it was closed is dropped.
    private(set) var isOpenAtClient = true
    private(set) var isOpenAtServer = true
    /// The connection is gone, as the sidecar sees it.
    var onLost: (() -> Void)?
    /// The connection is gone, as Redis sees it.
    var onLostAtServer: (() -> Void)?
    /// A message that answers no command: what is published and what was changed. On the sidecar.
    var onPush: ((Push) -> Void)?

    enum Push {
        case message(ModelRedis.Message)
        /// Of keys that another connection tracks.
        case changed(String)
    }

    init(number: Int, world: SimulatedWorld, path: NetworkPath, client: SimulatedWorld.NodeID, server: SimulatedWorld.NodeID) {
        self.number = number
        self.world = world
        self.path = path
        self.client = client
        self.server = server
    }

    func isOver(_ path: NetworkPath) -> Bool { self.path === path }

    /// Carries something to Redis.
    func toServer(_ receive: @escaping () -> Void) {
        lastAtServer = max(lastAtServer, path.arrival())
        world.schedule(at: lastAtServer, on: server) { [self] in
            if isOpenAtServer { receive() }
        }
    }

    /// Carries something to the sidecar.
    func toClient(_ receive: @escaping () -> Void) {
        lastAtClient = max(lastAtClient, path.arrival())
        world.schedule(at: lastAtClient, on: client) { [self] in
            if isOpenAtClient { receive() }
        }
    }

    /// The sidecar closes it, or has crashed: what it has sent still arrives.
    func closeAtClient() {
        guard isOpenAtClient else { return }
        isOpenAtClient = false
        toServer { [self] in lostAtServer() }
    }

    /// Redis is gone: what it has sent still arrives.
    func closeAtServer() {
        guard isOpenAtServer else { return }
        lostAtServer()
        toClient { [self] in lostAtClient() }
    }

    /// The connection is cut: what is under way is lost, in both directions, and each side is told in its own time.
    /// - Parameter lag: by how many nanoseconds later Redis may learn of it.
    func reset(lag: Int64) {
        world.schedule(after: world.draw(0...200 * SimulatedWorld.microsecond), on: client) { [self] in lostAtClient() }
        world.schedule(after: world.draw(0...max(lag, 200 * SimulatedWorld.microsecond)), on: server) { [self] in lostAtServer() }
    }

    private func lostAtServer() {
        guard isOpenAtServer else { return }
        isOpenAtServer = false
        onLostAtServer?()
        onLostAtServer = nil
    }

    private func lostAtClient() {
        guard isOpenAtClient else { return }
        isOpenAtClient = false
        onLost?()
        onLost = nil
        onPush = nil
    }
}

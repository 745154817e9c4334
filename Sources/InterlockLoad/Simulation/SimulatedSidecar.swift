internal import InterlockCore
internal import Interlock

/// One life of a sidecar's process, without its doors: `Coordinator`, with the rooms of the parties that take part in a run.
///
/// The seams, for whoever writes a room:
/// - `redis.send { model in … } completion: { result in … }` runs a command or script in Redis and brings its reply, or says
///   that it is lost. Of one connection commands arrive in order; the completion runs on the sidecar, exactly once, unless it
///   crashes before.
/// - `redis.run(.acquire, …)` is the same for a script that a Redis which began anew must first be sent (`ModelScript`): then
///   what was sent behind it comes before it.
/// - `timer(at:)` is `Deadlines.schedule`; `now` is the sidecar's clock.
/// - `watch` reads keys whose changes Redis tells (`SidecarRoom.keyChanged`).
/// - What is published on `keys.events` and on `keys.wake(id)` comes to `SidecarRoom.received`, over a connection of its own.
/// - `world.random` is the only source of chance. No `Dictionary` or `Set` may be iterated without being sorted first.
/// - A crash ends this object's life: a new one takes its place in its `SidecarHost`, and no event of the old one happens.
/// - A room is found by its type: `sidecar.room(LockRoom.self)`. Clients call it inside `ClientConnection.ask`.
final class SimulatedSidecar {
    let world: SimulatedWorld
    let server: SimulatedRedis
    let node: SimulatedWorld.NodeID
    /// Its number in the fleet, which its successors have too.
    let number: Int
    /// Its ID in the fleet: 12 hexadecimal digits.
    let id: String
    let keys: KeySpace
    let redis: SimulatedRedisLink
    let watch: SimulatedKeyWatch
    private(set) var rooms: [any SidecarRoom] = []
    private let subscriber: SimulatedSubscriber
    private var outage: SimulatedWorld.EventID?
    private var hasLostRedis = false
    private var reading: SimulatedWorld.EventID?

    init(number: Int, world: SimulatedWorld, server: SimulatedRedis, path: NetworkPath, node: SimulatedWorld.NodeID) {
        self.number = number
        self.world = world
        self.server = server
        self.node = node
        keys = KeySpace()
        id = String(OwnerToken.hexadecimal(world.random.next()).prefix(12))
        redis = SimulatedRedisLink(world: world, server: server, path: path, node: node)
        watch = SimulatedKeyWatch(world: world, server: server, path: path, node: node)
        subscriber = SimulatedSubscriber(
            world: world, server: server, path: path, node: node, channels: [keys.events, keys.wake(id)])
    }

    var now: Instant { world.now }

    func add(_ room: any SidecarRoom) {
        rooms.append(room)
    }

    /// Its room of this type; `nil`: its party does not take part.
    func room<Room: SidecarRoom>(_ type: Room.Type) -> Room? {
        for case let room as Room in rooms { return room }
        return nil
    }

    /// Begins to connect.
    func start() {
        redis.onUp = { [unowned self] _ in redisIsUp() }
        redis.onDown = { [unowned self] in redisIsDown() }
        subscriber.onMessage = { [unowned self] message in
            for room in rooms { room.received(message) }
        }
        subscriber.onChanged = { [unowned self] key in
            for room in rooms { room.keyChanged(key) }
        }
        subscriber.onSubscribed = { [unowned self] in readInTurn() }
        subscriber.onHearingChanges = { [unowned self] in watch.tell($0) }
        subscriber.onDown = { [unowned self] in watch.tell(nil) }
        watch.onTracking = { [unowned self] in
            for room in rooms { room.keyChanged(nil) }
        }
        redis.start()
        watch.start()
        subscriber.start()
        planReread()
    }

    /// Calls `action` at `instant` or soon after.
    @discardableResult
    func timer(at instant: Instant, _ action: @escaping () -> Void) -> SimulatedWorld.EventID {
        // An event loop is never early, and seldom exact.
        let lateness = world.draw(0...200 * SimulatedWorld.microsecond)
        let due = max(instant, now)
        return world.schedule(at: Instant(nanoseconds: due.nanoseconds + lateness), on: node, isTimer: true, action)
    }

    // MARK: Redis comes and goes

    private func redisIsUp() {
        if let outage { world.cancel(outage) }
        outage = nil
        for room in rooms { room.redisIsUp() }
        readInTurn()
    }

    private func redisIsDown() {
        hasLostRedis = true
        if outage == nil { planOutageCheck() }
    }

    private func planOutageCheck() {
        outage = timer(at: now.advanced(byMilliseconds: SimulatedRedisLink.commandTimeout)) { [unowned self] in
            guard !redis.isUp else { return }
            for room in rooms { room.redisIsAway() }
            planOutageCheck()
        }
    }

    private func planReread() {
        let pause = Coordinator.rereadMilliseconds * 9 / 10 + world.draw(0...Coordinator.rereadMilliseconds / 10)
        timer(at: now.advanced(byMilliseconds: pause)) { [unowned self] in
            reread()
            planReread()
        }
    }

    private func reread() {
        guard redis.isUp else { return }
        for room in rooms { room.reread() }
        lookAgain()
    }

    private func lookAgain() {
        for room in rooms { room.lookAgain() }
    }

    /// A newcomer reads at once; a fleet whose Redis is back does not ask all at one moment.
    private func readInTurn() {
        guard hasLostRedis else { return reread() }
        lookAgain()
        if let reading { world.cancel(reading) }
        let pause = world.draw(0...Coordinator.returnMilliseconds)
        reading = timer(at: now.advanced(byMilliseconds: pause)) { [unowned self] in
            guard redis.isUp else { return }
            for room in rooms { room.reread() }
        }
    }
}

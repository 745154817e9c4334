internal import InterlockCore

/// The Redis process of a world: the model behind connections, with its subscribers and those who are told of changes.
final class SimulatedRedis {
    /// How often it looks for what has lapsed: so much later than the end of a key at most is its change told.
    private static let expiryInterval: Int64 = 100 * SimulatedWorld.millisecond
    /// Unix time in microseconds when the world begins.
    private static let epoch: Int64 = 1_700_000_000_000_000

    let world: SimulatedWorld
    let node: SimulatedWorld.NodeID
    private(set) var model: ModelRedis
    private(set) var isUp = true
    /// How much its wall clock is set beside the true time, in microseconds.
    private var clockOffset: Int64 = 0
    private var hasJumped = false
    /// By how much its clock is faster than the sidecars': they allow for 1 %.
    private let clockRate: Double
    private let worldBegan: Instant
    private var connections: [SimulatedConnection] = []
    private var lastNumber = 0
    private var subscribers: [String: [SimulatedConnection]] = [:]
    /// Who is told of a key's next change.
    private var trackers: [String: [SimulatedConnection]] = [:]
    private var isExpiryPlanned = false
    private var scripts: Set<ModelScript> = []

    init(world: SimulatedWorld, mutant: Mutant?, clockRate: Double) {
        self.world = world
        self.clockRate = clockRate
        node = world.addNode()
        worldBegan = world.now
        model = ModelRedis(microseconds: Self.epoch, mutant: mutant)
    }

    // MARK: Commands

    /// Runs a command or a script now; what it publishes and changes is on its way afterwards.
    /// - Parameter sparing: who is not told of these changes, because they are its own.
    func execute<Reply>(sparing: SimulatedConnection? = nil, _ command: (inout ModelRedis) -> Reply) -> Reply {
        showTime()
        let reply = command(&model)
        deliver(sparing: sparing)
        return reply
    }

    /// Whether a script need not be sent with its source; afterwards it need not. A process that began anew knows none.
    func knows(_ script: ModelScript) -> Bool { !scripts.insert(script).inserted }

    /// Runs a read whose connection has the keys it reads watched for `listener`.
    func watch(_ key: String, for listener: SimulatedConnection?) {
        guard let listener else { return }
        model.track(key)
        if !(trackers[key] ?? []).contains(where: { $0 === listener }) { trackers[key, default: []].append(listener) }
        planExpiry()
    }

    private func showTime() {
        let elapsed = world.now.nanoseconds - worldBegan.nanoseconds
        let drift = Int64(Double(elapsed) * clockRate)
        model.microseconds = Self.epoch + clockOffset + (elapsed + drift) / 1000
    }

    /// When its wall clock shows so many milliseconds of Unix time; `nil`: it was ever set, and who knows when that was.
    func instant(ofMilliseconds time: Int64) -> Instant? {
        guard !hasJumped else { return nil }
        let shown = Double(time * 1000 - Self.epoch - clockOffset)
        return worldBegan.advanced(byMicroseconds: Int64((shown / (1 + clockRate)).rounded(.down)))
    }

    private func deliver(sparing: SimulatedConnection?) {
        for message in model.takePublished() {
            for listener in subscribers[message.channel] ?? [] {
                listener.toClient { listener.onPush?(.message(message)) }
            }
        }
        for key in model.takeChanged() {
            for listener in trackers.removeValue(forKey: key) ?? [] where listener !== sparing {
                listener.toClient { listener.onPush?(.changed(key)) }
            }
        }
    }

    private func planExpiry() {
        guard !isExpiryPlanned else { return }
        isExpiryPlanned = true
        world.schedule(after: world.draw(0...Self.expiryInterval), on: node, isTimer: true) { [unowned self] in
            isExpiryPlanned = false
            dropLapsed()
            if !trackers.isEmpty { planExpiry() }
        }
    }

    private func dropLapsed() {
        let keys = trackers.keys.sorted()
        execute { model in
            for key in keys { model.dropIfLapsed(key) }
        }
    }

    // MARK: Connections

    /// A connection that has just been accepted; `nil`: it is not there.
    func accept(from client: SimulatedWorld.NodeID, over path: NetworkPath) -> SimulatedConnection? {
        guard isUp else { return nil }
        lastNumber += 1
        let connection = SimulatedConnection(number: lastNumber, world: world, path: path, client: client, server: node)
        connection.onLostAtServer = { [unowned self, unowned connection] in forget(connection) }
        connections.append(connection)
        return connection
    }

    func subscribe(_ connection: SimulatedConnection, to channels: [String]) {
        for channel in channels {
            subscribers[channel, default: []].append(connection)
            model.subscribers[channel, default: 0] += 1
        }
    }

    private func forget(_ connection: SimulatedConnection) {
        connections.removeAll { $0 === connection }
        for channel in subscribers.keys.sorted() where subscribers[channel]?.contains(where: { $0 === connection }) ?? false {
            subscribers[channel]?.removeAll { $0 === connection }
            model.subscribers[channel] = subscribers[channel]?.count
        }
    }

    /// All connections of one sidecar that stand, in the order in which they came.
    func connections(over path: NetworkPath) -> [SimulatedConnection] { connections.filter { $0.isOver(path) } }

    // MARK: What befalls it

    /// Sets its wall clock so many milliseconds further, or back.
    func jump(byMilliseconds milliseconds: Int64) {
        showTime()
        // What has lapsed does not come back when the clock is set back.
        dropLapsed()
        model.dropLapsed()
        hasJumped = true
        clockOffset += milliseconds * 1000
    }

    func pause() { world.pause(node) }
    func resume() { world.resume(node) }

    /// Its process ends; what was carried out is kept.
    func stop() {
        guard isUp else { return }
        isUp = false
        world.crash(node)
        isExpiryPlanned = false
        let standing = connections
        connections = []
        subscribers = [:]
        trackers = [:]
        scripts = []
        model.restart()
        for connection in standing {
            connection.onLostAtServer = nil
            connection.closeAtServer()
        }
    }

    /// - Parameter isEmpty: it has lost its keys.
    func start(isEmpty: Bool) {
        isUp = true
        if isEmpty { model.wipe() }
    }
}

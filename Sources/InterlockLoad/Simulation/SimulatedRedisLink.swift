internal import DequeModule
internal import Hiredis
internal import InterlockCore

/// Why a command has no reply, as `RedisError.Code` has it.
enum LostAnswer: Error {
    /// It was never sent.
    case notConnected
    /// Redis may have carried it out, or may yet.
    case timedOut
    /// The connection was lost before the reply: Redis may have carried it out, or may yet.
    case connectionLost

    /// The command may have been carried out although its reply is not known.
    var isOutcomeUnknown: Bool { self != .notConnected }
}

/// A connection to Redis that a sidecar keeps up, and its pipelined commands: `RedisLink` and `RedisChannelHandler` of Hiredis,
/// as they behave towards their users.
final class SimulatedRedisLink {
    private static let configuration = RedisConfiguration(address: .unixSocket(path: "simulated"))
    /// How long a command may wait for its reply, in milliseconds.
    static let commandTimeout = configuration.commandTimeout.wholeMilliseconds
    private static let connectTimeout = configuration.connectTimeout.wholeMilliseconds

    private enum State {
        case connecting(attempt: Int)
        case up(SimulatedConnection)
        case pausing
    }

    private struct Pending {
        var sentAt: Instant
        /// `nil` once it has timed out: the reply is still to come and belongs to nobody.
        var fail: ((LostAnswer) -> Void)?
    }

    private let world: SimulatedWorld
    private let server: SimulatedRedis
    private let path: NetworkPath
    private let node: SimulatedWorld.NodeID
    /// Of its sidecar.
    private let life: UInt32
    private var state = State.pausing
    private var attempts = 0
    private var backoff = Backoff(range: configuration.reconnectDelay)
    private var pending: Deque<Pending> = []
    private var nextExpiry: SimulatedWorld.EventID?
    private(set) var lastRead: Instant

    /// A connection is up: the first, and each one after a loss.
    var onUp: ((SimulatedConnection) -> Void)?
    /// The connection is lost or an attempt failed; the next attempt is already planned.
    var onDown: (() -> Void)?

    init(world: SimulatedWorld, server: SimulatedRedis, path: NetworkPath, node: SimulatedWorld.NodeID) {
        self.world = world
        self.server = server
        self.path = path
        self.node = node
        life = world.crashes(of: node)
        lastRead = world.now
    }

    var isUp: Bool { connection != nil }

    /// The connection, while it is up.
    var connection: SimulatedConnection? {
        if case .up(let connection) = state { connection } else { nil }
    }

    // MARK: Commands

    /// Runs `command` in Redis: a command or a script, as a function of the model. `completion` is called exactly once on the
    /// sidecar, possibly before this returns, and not at all when the sidecar crashes meanwhile.
    func send<Reply>(
        _ command: @escaping (inout ModelRedis) -> Reply, completion: @escaping (Result<Reply, LostAnswer>) -> Void
    ) {
        sendOnConnection({ [server] _ in server.execute(command) }, completion: completion)
    }

    /// Runs a script: by its digest, and once more with its source when the server does not know it.
    func run<Reply>(
        _ script: ModelScript, _ command: @escaping (inout ModelRedis) -> Reply,
        completion: @escaping (Result<Reply, LostAnswer>) -> Void
    ) {
        runOnConnection(script, { [server] _ in server.execute(command) }, completion: completion)
    }

    /// The same for a script that concerns the connection itself.
    func runOnConnection<Reply>(
        _ script: ModelScript, _ command: @escaping (SimulatedConnection) -> Reply,
        completion: @escaping (Result<Reply, LostAnswer>) -> Void
    ) {
        sendOnConnection { [server] connection in
            server.knows(script) ? command(connection) : nil
        } completion: { [unowned self] (result: Result<Reply?, LostAnswer>) in
            switch result {
            case .success(let reply?): completion(.success(reply))
            case .success(nil): sendOnConnection(command, completion: completion)
            case .failure(let error): completion(.failure(error))
            }
        }
    }

    /// The same for what concerns the connection itself. `command` runs on Redis' side.
    func sendOnConnection<Reply>(
        _ command: @escaping (SimulatedConnection) -> Reply, completion: @escaping (Result<Reply, LostAnswer>) -> Void
    ) {
        guard let connection else { return completion(.failure(.notConnected)) }
        pending.append(Pending(sentAt: world.now, fail: { completion(.failure($0)) }))
        if nextExpiry == nil { planExpiry(at: world.now.advanced(byMilliseconds: Self.commandTimeout)) }
        connection.toServer { [self] in
            let reply = command(connection)
            connection.toClient { [self] in
                lastRead = world.now
                guard pending.popFirst()?.fail != nil else { return }
                completion(.success(reply))
            }
        }
    }

    private func planExpiry(at instant: Instant) {
        nextExpiry = world.schedule(at: instant, on: node, isTimer: true) { [unowned self] in expire() }
    }

    private func expire() {
        nextExpiry = nil
        let now = world.now
        var late: [(LostAnswer) -> Void] = []
        var next: Instant?
        for index in pending.indices {
            guard let fail = pending[index].fail else { continue }
            let deadline = pending[index].sentAt.advanced(byMilliseconds: Self.commandTimeout)
            guard deadline <= now else {
                next = deadline
                break
            }
            pending[index].fail = nil
            late.append(fail)
        }
        // Nothing at all for a timeout after a command was due: the peer is gone without saying so.
        if let oldest = pending.first, oldest.fail == nil,
            oldest.sentAt.advanced(byMilliseconds: 2 * Self.commandTimeout) <= now,
            lastRead.advanced(byMilliseconds: Self.commandTimeout) < now
        {
            giveUp()
        }
        for fail in late { fail(.timedOut) }
        if let next, isUp, nextExpiry == nil { planExpiry(at: next) }
    }

    // MARK: The connection

    /// Begins to connect and keeps the connection up.
    func start() {
        connect()
    }

    /// Something came that answers no command.
    func heard() {
        lastRead = world.now
    }

    /// The peer gives no sign of life: the connection is closed from this side.
    func giveUp() {
        guard let connection else { return }
        connection.onLost = nil
        connection.closeAtClient()
        lost()
    }

    private func connect() {
        attempts += 1
        let attempt = attempts
        state = .connecting(attempt: attempt)
        let timeout = world.schedule(
            at: world.now.advanced(byMilliseconds: Self.connectTimeout), on: node, isTimer: true
        ) { [unowned self] in attemptFailed() }
        // To Redis, and with the login's reply back again.
        world.schedule(at: path.arrival(), on: server.node) { [self] in
            // The sidecar that asked for it may be dead.
            guard world.crashes(of: node) == life else { return }
            let connection = server.accept(from: node, over: path)
            world.schedule(at: path.arrival(), on: node) { [self] in
                guard case .connecting(attempt) = state else {
                    connection?.closeAtClient()
                    return
                }
                world.cancel(timeout)
                guard let connection, connection.isOpenAtClient else { return attemptFailed() }
                connected(connection)
            }
        }
    }

    private func connected(_ connection: SimulatedConnection) {
        connection.onLost = { [unowned self] in lost() }
        lastRead = world.now
        backoff.reset()
        state = .up(connection)
        onUp?(connection)
    }

    private func lost() {
        if let nextExpiry { world.cancel(nextExpiry) }
        nextExpiry = nil
        let failed = pending
        pending.removeAll()
        state = .pausing
        for command in failed { command.fail?(.connectionLost) }
        attemptFailed()
    }

    private func attemptFailed() {
        let pause = backoff.next(random: world.random.unit())
        state = .pausing
        world.schedule(at: world.now.advanced(byMilliseconds: pause.wholeMilliseconds), on: node, isTimer: true) {
            [unowned self] in connect()
        }
        onDown?()
    }
}

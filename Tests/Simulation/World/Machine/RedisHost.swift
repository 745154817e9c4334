import InterlockJudge
import NIOCore
import RedisClient
import SimulatedRedis

/// A machine with one Redis server. Its process may be stopped or killed, and may restart with all, some or none of its
/// data. Its clock drifts and jumps.
final class RedisHost {
    /// The data that a server starts with.
    enum Data {
        case all
        /// The data of the last snapshot: later writes were not saved or not replicated.
        case some
        case none
    }

    /// The host name in configurations.
    let name: String
    let server: SimulatedServer
    private let timeline: WorldTimeline
    private let clock: HostClock
    private(set) var isUp = true
    private(set) var isStopped = false
    /// The number of times that the server was started.
    private(set) var incarnation = 1
    private var snapshot = Keyspace()
    /// The work that waits until a stopped server resumes.
    private var deferredWork: [() -> Void] = []
    /// The actions that cut the open connections, by connection number.
    private var cuts: [Int: () -> Void] = [:]
    private var lastConnectionNumber = 0
    /// The servers that had this address before. Connections to them may still be open.
    private(set) var formerServers: [SimulatedServer] = []
    /// Receives everything that the server reads and writes, with the connection's number.
    var onTraffic: ((String, [UInt8]) -> Void)?

    /// Creates a machine whose server runs and is empty.
    /// - Parameter makeServer: creates the server with the machine's clock, which returns microseconds.
    init(
        name: String, timeline: WorldTimeline, driftPerBillion: Int64,
        makeServer: (_ now: @escaping () -> Int64) -> SimulatedServer = { SimulatedServer(now: $0) }
    ) {
        self.name = name
        self.timeline = timeline
        let clock = HostClock(timeline: timeline, driftPerBillion: driftPerBillion)
        self.clock = clock
        server = makeServer { clock.microseconds }
        sweep()
    }

    /// The wall clock, as Unix time in microseconds.
    var microseconds: Int64 { clock.microseconds }

    // MARK: Connections

    /// Accepts a connection. Returns `false` if the server is down.
    func accept(_ wire: Wire) -> Bool {
        guard isUp else { return false }
        lastConnectionNumber += 1
        let number = lastConnectionNumber
        let connection = server.connect { [weak self] bytes in
            self?.onTraffic?("\(number) <", bytes)
            wire.send(ByteBuffer(bytes: bytes), to: wire.near)
        }
        connection.onClose = { [weak self] in
            self?.cuts[number] = nil
            wire.close(to: wire.near)
        }
        cuts[number] = { wire.cut() }
        wire.far.onBytes = { [weak self] bytes in
            self?.execute {
                let bytes = Array(bytes.readableBytesView)
                self?.onTraffic?("\(number) >", bytes)
                connection.receive(bytes)
            }
        }
        wire.far.onEnd = { [weak self] in
            self?.execute {
                self?.cuts[number] = nil
                connection.close()
            }
        }
        return true
    }

    /// Runs work on the server's only thread: immediately if the server runs, or once a stopped server resumes.
    func execute(_ body: @escaping () -> Void) {
        if isStopped { deferredWork.append(body) } else if isUp { body() }
    }

    /// Whether the server is up and not stopped.
    var isRunning: Bool { isUp && !isStopped }

    /// Cuts all connections to sidecars.
    func cutConnections() {
        for (_, cut) in cuts.sorted(by: { $0.key < $1.key }) { cut() }
        cuts = [:]
    }

    // MARK: Faults

    func stop() { isStopped = true }

    func resume() {
        isStopped = false
        let work = deferredWork
        deferredWork = []
        for body in work where isUp { body() }
    }

    /// Takes a snapshot. A start with `Data.some` loses all later writes.
    func takeSnapshot() { snapshot = server.keyspace }

    /// Kills the server, and cuts all its connections.
    func crash() {
        isUp = false
        isStopped = false
        deferredWork = []
        cutConnections()
    }

    func start(with data: Data) {
        let keyspace: Keyspace =
            switch data {
            case .all: server.keyspace
            case .some: snapshot
            case .none: Keyspace()
            }
        server.restart(with: keyspace)
        incarnation += 1
        isUp = true
    }

    /// Performs a planned failover behind one address: new connections reach another server, which has all data, and
    /// existing ones stay with the demoted server.
    func handOver() { formerServers.append(server.handOver()) }

    /// Simulates another program that sends `FLUSHALL`.
    func wipe() {
        let connection = server.connect { _ in }
        connection.receive("FLUSHALL")
        connection.close()
    }

    /// Sets the clock ahead of the correct time by this much, or behind it if negative.
    func setClock(aheadByMilliseconds milliseconds: Int64) {
        clock.leadMicroseconds = milliseconds * 1000
        server.removeExpiredKeys()
    }

    /// Deletes expired keys in the background, as Redis does.
    private func sweep() {
        timeline.schedule(in: .milliseconds(500)) { [weak self] in
            guard let self else { return }
            if isUp, !isStopped { server.removeExpiredKeys() }
            sweep()
        }
    }
}

/// A simulated machine's wall clock.
final class HostClock {
    /// The time at which every world begins: 2026-11-22 00:00:00 UTC, in microseconds.
    static let epoch: Int64 = 1_795_305_600_000_000

    private let timeline: WorldTimeline
    private let driftPerBillion: Int64
    /// The clock's lead over the correct time, in microseconds.
    var leadMicroseconds: Int64 = 0

    init(timeline: WorldTimeline, driftPerBillion: Int64) {
        self.timeline = timeline
        self.driftPerBillion = driftPerBillion
    }

    /// The clock's time, as Unix time in microseconds.
    var microseconds: Int64 {
        let elapsed = (timeline.now - WorldTimeline.beginning) / 1000
        return Self.epoch + elapsed + elapsed * driftPerBillion / 1_000_000_000 + leadMicroseconds
    }
}

/// Opens one sidecar's connections to the Redis servers of its world, by host name.
struct SimulatedDialer: RedisDialer, @unchecked Sendable {
    // Unchecked: a world runs on one thread.
    let timeline: WorldTimeline
    /// Returns the server with this name, and the path to it.
    let resolve: (String) -> (host: RedisHost, path: Path)?

    func dial(_ configuration: RedisConfiguration, on eventLoop: any EventLoop) -> EventLoopFuture<any Channel> {
        guard case .host(let name, _) = configuration.address, let (host, path) = resolve(name) else {
            return eventLoop.makeFailedFuture(
                ConnectionAttempt.Refused(description: "cannot resolve \(configuration.displayName)"))
        }
        return ConnectionAttempt(timeline: timeline, path: path, eventLoop: eventLoop)
            .dial(timeout: TimeAmount(configuration.connectTimeout), accept: host.accept)
    }
}

import InterlockJudge
import NIOCore
import RedisClient
import SimulatedRedis

/// A machine with one Redis server. It may stop, be down, and restart with all, some or none of its data. Its clock
/// drifts and jumps.
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
    private var deferred: [() -> Void] = []
    private var cuts: [Int: () -> Void] = [:]
    private var lastConnection = 0
    /// The servers that had this address before. Connections to them may still be open.
    private(set) var formerServers: [SimulatedServer] = []
    /// Receives everything that the server reads and writes, with the connection's number.
    var onTraffic: ((String, [UInt8]) -> Void)?

    /// - Parameter makeServer: creates the server with the machine's clock.
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
        lastConnection += 1
        let number = lastConnection
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

    /// Runs work on the server's only thread, after a delay if the server is stopped.
    func execute(_ body: @escaping () -> Void) {
        if isStopped { deferred.append(body) } else if isUp { body() }
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
        let bodies = deferred
        deferred = []
        for body in bodies where isUp { body() }
    }

    /// Takes a snapshot. Later writes are lost if the server starts with `Data.some`.
    func takeSnapshot() { snapshot = server.keyspace }

    /// Ends the server and all its connections.
    func crash() {
        isUp = false
        isStopped = false
        deferred = []
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
        clock.ahead = milliseconds * 1000
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
    private let drift: Int64
    /// The clock's lead over the correct time, in microseconds.
    var ahead: Int64 = 0

    init(timeline: WorldTimeline, driftPerBillion: Int64) {
        self.timeline = timeline
        drift = driftPerBillion
    }

    var microseconds: Int64 {
        let passed = (timeline.now - WorldTimeline.beginning) / 1000
        return Self.epoch + passed + passed * drift / 1_000_000_000 + ahead
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

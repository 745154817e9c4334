import Interlock
import InterlockCore
import InterlockHTTP
import InterlockJudge
import InterlockSidecar
import SidecarListeners
import Logging
import NIOCore
import RedisClient

/// A machine with one sidecar: the product's coordinator, APIs and proxy in a simulated process that may be stopped,
/// killed and restarted.
final class SidecarHost {
    /// The state of the process from one start to its end.
    private final class Process {
        let loop: SimulatedEventLoop
        let coordinator: Coordinator
        let listeners: HostedListeners
        var wires: [Wire] = []

        init(loop: SimulatedEventLoop, coordinator: Coordinator, listeners: HostedListeners) {
            self.loop = loop
            self.coordinator = coordinator
            self.listeners = listeners
        }
    }

    let number: Int
    /// The paths to the Redis servers, one each.
    let paths: [Path]
    /// The paths to the services behind its proxy, and their dialer.
    private let upstreams: (paths: [Path], dialer: any HTTPDialer)
    private let timeline: WorldTimeline
    private let driftPerBillion: Int64
    private let servers: [RedisHost]
    private let logger: Logger
    private var random: SeededRandom
    /// The configuration, which takes effect at the next start or reload.
    var configuration: InterlockConfiguration
    private var process: Process?
    private(set) var isStopped = false

    init(
        number: Int, configuration: InterlockConfiguration, servers: [RedisHost], paths: [Path],
        upstreams: (paths: [Path], dialer: any HTTPDialer), timeline: WorldTimeline, driftPerBillion: Int64,
        random: SeededRandom, logger: Logger
    ) {
        self.number = number
        self.configuration = configuration
        self.servers = servers
        self.paths = paths
        self.upstreams = upstreams
        self.timeline = timeline
        self.driftPerBillion = driftPerBillion
        self.random = random
        self.logger = logger
    }

    var isUp: Bool { process != nil }

    // MARK: Life cycle

    func start() {
        guard process == nil else { return }
        let loop = SimulatedEventLoop(timeline: timeline, driftPerBillion: driftPerBillion)
        // A separate stream for each start makes tokens differ between starts.
        let stream = SharedRandom(random.split())
        var environment = CoordinatorEnvironment(
            eventLoop: loop, clock: TimeSource { Instant(nanoseconds: loop.localNow) },
            wallClock: WallClock { HostClock.epoch / 1000 + (loop.localNow - WorldTimeline.beginning) / 1_000_000 },
            random: stream.source,
            dialer: SimulatedDialer(timeline: timeline) { [servers, paths] name in
                servers.firstIndex { $0.name == name }.map { (servers[$0], paths[$0]) }
            }, logger: logger)
        environment.processID = Int32(number + 1)
        let coordinator = Coordinator(configuration: configuration, environment: environment)
        // Drawing from a copy leaves the stream itself unchanged.
        var randomCopy = random
        let pauseStream = SharedRandom(randomCopy.split())
        let servers = HTTPClientEnvironment(dialer: upstreams.dialer) {
            var source = pauseStream.source
            return .random(in: 0...1, using: &source)
        }
        let listeners = loop.enter {
            coordinator.assumeIsolated { $0.start() }
            return HostedListeners(
                coordinator: coordinator, access: AccessControl(keys: []), servers: servers,
                scheduler: SliceScheduler(eventLoop: loop, clock: workClock(of: loop)), logger: logger)
        }
        process = Process(loop: loop, coordinator: coordinator, listeners: listeners)
        isStopped = false
    }

    /// Returns a clock that advances with each reading. The world's clock does not advance while a process runs, so no
    /// client's time slice would end.
    private func workClock(of loop: SimulatedEventLoop) -> () -> Nanoseconds {
        var random = SeededRandom(seed: UInt64(number) &+ UInt64(bitPattern: loop.localNow))
        var work: Nanoseconds = 0
        return {
            // The time that eight quick commands take between two readings, or one slow command.
            work += Int64.random(in: 1_000...200_000, using: &random)
            return loop.localNow + work
        }
    }

    /// Kills the process, as SIGKILL or a power cut does.
    func kill() {
        guard let process else { return }
        self.process = nil
        process.loop.kill()
        RetainedObjects.retain(process)
        for path in paths + upstreams.paths { path.cutAll() }
        for wire in process.wires { wire.cut() }
    }

    /// Releases the coordinator without stopping it, while the rest of the process lives on.
    func abandon() {
        process = nil
    }

    /// Stops the process, as SIGSTOP does.
    func stop() {
        guard let process else { return }
        isStopped = true
        process.loop.stop()
    }

    /// Resumes the process, as SIGCONT does.
    func resume() {
        isStopped = false
        process?.loop.resume()
    }

    // MARK: Requests

    /// Accepts a connection to one of the sidecar's APIs. Returns `false` if the process is not running.
    func accept(_ wire: Wire, at api: SidecarAPI = .resp) -> Bool {
        guard let process else { return false }
        process.wires.removeAll { $0.hasEnded }
        process.wires.append(wire)
        let loop = process.loop
        let listeners = process.listeners
        let channel = SimulatedChannel(eventLoop: loop)
        // The loop keeps bytes that arrive before the process accepts the connection, as an operating system does.
        wire.far.onBytes = { bytes in loop.execute { channel.receive(bytes) } }
        wire.far.onEnd = { loop.execute { channel.receiveEnd() } }
        channel.onSend = { wire.send($0, to: wire.near) }
        channel.onClose = { wire.close(to: wire.near) }
        nonisolated(unsafe) let accept = {
            // Safe to ignore: serving cannot fail, because the channel and its handlers are new.
            switch api {
            case .resp: try? listeners.resp.serve(channel)
            case .http: try? listeners.http.serve(channel)
            case .grpc: try? listeners.grpc.serve(channel)
            }
            channel.activate()
        }
        loop.execute { accept() }
        return true
    }

    /// Calls the coordinator as the sidecar's own APIs do, if the process runs.
    func call(_ body: @escaping (LoopBoundCoordinator) -> Void) {
        guard let process, !isStopped else { return }
        process.loop.enter { body(process.coordinator.loopBound()) }
    }

    /// Reloads the configuration with other domains, as SIGHUP does.
    func reload(domains: [RateLimitDomain]) {
        configuration.domains.definitions = domains
        guard let process, !isStopped else { return }
        process.loop.enter { process.coordinator.assumeIsolated { $0.reload(domains: domains) } }
    }

    /// Reloads the configuration with other services, as SIGHUP does.
    func reload(_ services: [ServiceDefinition]) {
        configuration.services = services
        guard let process, !isStopped else { return }
        process.loop.enter {
            process.coordinator.assumeIsolated { coordinator in
                do {
                    try coordinator.reload(services: services)
                } catch {
                    preconditionFailure("the sidecar refused the world's services: \(error)")
                }
            }
        }
    }

    /// Shuts down, as SIGTERM does: the coordinator answers waiting callers, then the listeners close.
    func drain() {
        guard let process, !isStopped else { return }
        process.loop.enter {
            process.coordinator.assumeIsolated { $0.drain() }
            process.listeners.shutDown()
        }
    }
}

/// The APIs of a sidecar.
enum SidecarAPI {
    case resp, http, grpc
}

/// A seeded stream that several users share, in the order of their draws.
private final class SharedRandom: @unchecked Sendable {
    // Unchecked: a world runs on one thread.
    private var random: SeededRandom

    init(_ random: SeededRandom) {
        self.random = random
    }

    var source: RandomSource {
        RandomSource { bytes in
            var index = 0
            while index < bytes.count {
                withUnsafeBytes(of: self.random.next()) { word in
                    for byte in word.prefix(bytes.count - index) {
                        bytes[index] = byte
                        index += 1
                    }
                }
            }
        }
    }
}

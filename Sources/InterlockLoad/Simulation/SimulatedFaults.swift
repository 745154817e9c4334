internal import InterlockCore

/// Breaks things in a simulated run, and mends them: what, when and for how long is drawn from the seed.
final class SimulatedFaults {
    /// No fault lasts longer, in ms.
    static let longest: Int64 = 3000
    /// A clock that is set back makes leases last by so much longer: in ms.
    private static let longestJumpBack: Int64 = 2000
    private static let longestJumpForward: Int64 = 3_600_000

    private let fleet: SimulatedFleet
    private let world: SimulatedWorld
    /// Those of this run.
    private let kinds: [FaultKind]
    /// The longest pause between two faults, in ms.
    private let gap: Int64
    private var lastNumber = 0
    private var isStopping = false
    private var isRedisBroken = false
    private var brokenHosts: Set<Int> = []
    private var present = 0

    init(fleet: SimulatedFleet) {
        self.fleet = fleet
        world = fleet.world
        // A wipe and a clock set back together may repeat a fence: the one exception that the guarantees make.
        let exclusiveOfOther: FaultKind = world.happens(0.5) ? .clock : .redisWipe
        kinds = FaultKind.allCases.filter { kind in
            kind != .vanish && kind != exclusiveOfOther && fleet.world.happens(0.6)
        }
        gap = world.draw(200...8000)
    }

    /// Nothing is broken.
    var isWhole: Bool { present == 0 }

    func start() {
        guard !kinds.isEmpty else { return }
        planNext()
    }

    /// Nothing more is broken; what is, is mended in its time.
    func stop() {
        isStopping = true
    }

    private func planNext() {
        world.schedule(after: world.draw(0...gap * SimulatedWorld.millisecond)) { [unowned self] in
            guard !isStopping else { return }
            begin(kinds[world.pick(kinds.count)])
            planNext()
        }
    }

    private func begin(_ kind: FaultKind) {
        switch kind {
        case .kill, .pause, .partition, .latency, .reset:
            let number = world.pick(fleet.hosts.count)
            guard brokenHosts.insert(number).inserted else { return }
            let host = fleet.hosts[number]
            began(kind, sidecar: number, lasting: breakHost(host, kind)) { [unowned self] in
                mend(host, kind)
                brokenHosts.remove(number)
            }
        case .redisRestart, .redisPause, .redisWipe, .clock:
            guard !isRedisBroken else { return }
            isRedisBroken = true
            let (duration, mend) = breakRedis(kind)
            began(kind, sidecar: nil, lasting: duration) { [unowned self] in
                mend()
                isRedisBroken = false
            }
        case .vanish:
            break
        }
    }

    private func began(_ kind: FaultKind, sidecar: Int?, lasting milliseconds: Int64, mend: @escaping () -> Void) {
        lastNumber += 1
        let number = lastNumber
        present += 1
        world.record(.faultBegan(fault: number, kind, sidecar: sidecar))
        world.schedule(after: milliseconds * SimulatedWorld.millisecond) { [unowned self] in
            mend()
            present -= 1
            world.record(.faultEnded(fault: number))
        }
    }

    /// For how many milliseconds.
    private func breakHost(_ host: SidecarHost, _ kind: FaultKind) -> Int64 {
        switch kind {
        case .kill:
            host.kill()
            return world.draw(0...500)
        case .pause:
            host.pause()
            return world.draw(1...Self.longest)
        case .partition:
            let duration = world.draw(1...Self.longest)
            host.path.blockedUntil = world.now.advanced(byMilliseconds: duration)
            return duration
        case .latency:
            host.path.slowness = world.draw(1...300) * SimulatedWorld.millisecond
            return world.draw(1...Self.longest)
        default:
            let duration = world.draw(1...1000)
            reset(host, until: world.now.advanced(byMilliseconds: duration))
            return duration
        }
    }

    private func mend(_ host: SidecarHost, _ kind: FaultKind) {
        switch kind {
        case .kill: host.start()
        case .pause: host.resume()
        case .latency: host.path.slowness = 0
        default: break
        }
    }

    /// Its connections are cut, again and again.
    private func reset(_ host: SidecarHost, until end: Instant) {
        // Redis may go on for a while to believe in a connection that is gone.
        let lag = world.happens(0.3) ? 1000 * SimulatedWorld.millisecond : 0
        for connection in fleet.redis.connections(over: host.path) where world.happens(0.7) { connection.reset(lag: lag) }
        let next = world.now.advanced(byMilliseconds: world.draw(1...200))
        guard next < end else { return }
        world.schedule(at: next) { [unowned self] in reset(host, until: end) }
    }

    /// For how many milliseconds, and how it is mended.
    private func breakRedis(_ kind: FaultKind) -> (Int64, () -> Void) {
        let redis = fleet.redis
        switch kind {
        case .redisPause:
            redis.pause()
            return (world.draw(1...Self.longest), { redis.resume() })
        case .clock:
            let isForward = world.happens(0.5)
            if isForward, world.happens(0.3) {
                redis.jump(byMilliseconds: world.draw(1...Self.longestJumpForward))
                return (1, {})
            }
            let size = world.draw(1...Self.longestJumpBack)
            redis.jump(byMilliseconds: isForward ? size : -size)
            let returns = world.happens(0.5)
            return (world.draw(1...Self.longest), { if returns { redis.jump(byMilliseconds: isForward ? -size : size) } })
        default:
            redis.stop()
            return (world.draw(1...800), { redis.start(isEmpty: kind == .redisWipe) })
        }
    }
}

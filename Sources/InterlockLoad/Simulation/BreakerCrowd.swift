internal import InterlockCore

/// The clients of breakers in one run, and the services they call: what is drawn from the seed.
final class BreakerCrowd: SimulatedCrowd {
    /// How often clients do what.
    struct Habits {
        /// Pauses between two calls, in ms.
        var thinking: ClosedRange<Int64>
        /// Those who wait for a limit do so for at most so long, in ms.
        var wait: Int64
        var waits: Double
        var vanishes: Double
        /// Never reports.
        var forgets: Double
        /// Reports late, perhaps when its permit has lapsed.
        var overstays: Double
        /// Goes to another sidecar.
        var wanders: Double
    }

    let simulated: [SimulatedService]
    let upstreams: [Upstream]
    let habits: Habits
    private let firstNumber: Int
    private let news: BreakerNews
    private let clientCount: Int
    private var sidecarCount = 1
    private var clients: [BreakerClient] = []
    private var lastPermit: PermitNumber = 0
    private(set) var isStopping = false

    /// - Parameter firstNumber: of the first of its services, in the history.
    init(world: SimulatedWorld, firstNumber: Int) {
        self.firstNumber = firstNumber
        simulated = (0..<1 + world.pick(2)).map { index in
            SimulatedService(index: index, definition: Self.definition(index, in: world))
        }
        news = BreakerNews(services: simulated, firstNumber: firstNumber)
        upstreams = simulated.map { _ in Upstream(world: world) }
        clientCount = 2 + world.pick(29)
        habits = Habits(
            thinking: 0...world.draw(1...200), wait: world.draw(20...2000), waits: world.random.unit(),
            vanishes: world.random.unit() * 0.1, forgets: world.random.unit() * 0.1,
            overstays: world.random.unit() * 0.1, wanders: world.random.unit() * 0.2)
    }

    private static func definition(_ index: Int, in world: SimulatedWorld) -> ServiceDefinition {
        let limits = world.happens(0.4) ? LimitCrowd.limits(in: world, areWide: true) : []
        let trips = !limits.isEmpty && world.happens(0.4)
        let shortestPause = world.draw(50...500)
        let shortest = world.draw(50...800)
        let window: BreakerSettings.Window =
            world.happens(0.7) ? .time(.milliseconds(world.draw(100...3000))) : .calls(10 + world.pick(50))
        return ServiceDefinition(
            name: "api-\(index)", limits: limits,
            onLimit: LimitPolicy(
                action: trips ? .trip : .deny,
                pause: .milliseconds(shortestPause) ... .milliseconds(2 * shortestPause)),
            breaker: BreakerSettings(
                failureRate: 0.3 + world.random.unit() * 0.5, slowCall: world.happens(0.5) ? .milliseconds(50) : nil,
                slowRate: 0.5, window: window, minimumCalls: 1 + world.pick(12),
                consecutiveFailures: world.happens(0.3) ? 2 + world.pick(7) : nil,
                reporters: world.happens(0.25) ? 2 : 1,
                openFor: .milliseconds(shortest) ... .milliseconds(world.draw(1...6) * shortest),
                halfOpenPermits: 1 + world.pick(4)),
            probe: world.happens(0.4) ? probe(in: world) : nil,
            whenRedisIsDown: OutagePolicy.allCases[world.pick(OutagePolicy.allCases.count)],
            permitLifetime: .milliseconds(world.draw(200...4000)))
    }

    private static func probe(in world: SimulatedWorld) -> ProbeSettings {
        ProbeSettings(
            target: .http("/status"), interval: .milliseconds(world.draw(50...1000)), timeout: .milliseconds(50),
            unhealthyAfter: 1 + world.pick(2), healthyAfter: 1 + world.pick(2), isFollowedByTrial: world.happens(0.5),
            origin: world.happens(0.5) ? .one : .all)
    }

    var services: [ServiceRules] { simulated.map(\.rules) }
    /// A trial, the batch under way and its own, each within its time, and something for the ways.
    var patience: Int64 { 3 * SimulatedRedisLink.commandTimeout + 100 }
    var isIdle: Bool { clients.allSatisfy(\.isIdle) }

    func number(of service: SimulatedService) -> Int { firstNumber + service.index }

    func furnish(_ sidecar: SimulatedSidecar) {
        let room = PermitRoom(
            sidecar: sidecar, services: simulated, news: news, sidecars: { [unowned self] in sidecarCount },
            isWell: { [unowned self] in upstreams[$0.index].phase != .down })
        sidecar.add(room)
    }

    func start(in fleet: SimulatedFleet) {
        sidecarCount = fleet.hosts.count
        for upstream in upstreams { upstream.start() }
        clients = (0..<clientCount).map { _ in BreakerClient(crowd: self, fleet: fleet) }
        for client in clients { client.think(LimitCrowd.connecting...LimitCrowd.connecting + habits.thinking.upperBound) }
    }

    func stop() {
        isStopping = true
    }

    /// Numbers a permit that was given.
    func nextPermit() -> PermitNumber {
        lastPermit += 1
        return lastPermit
    }
}

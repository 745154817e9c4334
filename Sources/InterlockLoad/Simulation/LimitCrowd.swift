internal import InterlockCore

/// The clients of limits in one run: how many, of which limits, and how they behave is drawn from the seed.
final class LimitCrowd: SimulatedCrowd {
    /// How often clients do what.
    struct Habits {
        /// Pauses between two calls, in ms.
        var thinking: ClosedRange<Int64>
        /// Those who wait do so for so long, in ms.
        var wait: ClosedRange<Int64>
        var waits: Double
        var vanishes: Double
        /// Goes to another sidecar.
        var wanders: Double
    }

    /// So many ms after they were started all sidecars have Redis; before that they act as they do without it.
    static let connecting: Int64 = 100

    let simulated: [SimulatedService]
    let habits: Habits
    private let firstNumber: Int
    private let clientCount: Int
    private var sidecarCount = 1
    private var clients: [LimitClient] = []
    private(set) var isStopping = false

    /// - Parameter firstNumber: of the first of its services, in the history.
    init(world: SimulatedWorld, firstNumber: Int) {
        self.firstNumber = firstNumber
        simulated = (0..<1 + world.pick(3)).map { index in
            let limits = Self.limits(in: world)
            let definition = ServiceDefinition(
                name: "limited-\(index)", limits: limits,
                onLimit: LimitPolicy(maximumWaiting: world.happens(0.3) ? 1 + world.pick(4) : 1000),
                whenRedisIsDown: OutagePolicy.allCases[world.pick(OutagePolicy.allCases.count)])
            return SimulatedService(index: index, definition: definition)
        }
        clientCount = 2 + world.pick(29)
        habits = Habits(
            thinking: 0...world.draw(1...400), wait: 1...world.draw(20...3000), waits: world.random.unit(),
            vanishes: world.random.unit() * 0.1, wanders: world.random.unit() * 0.2)
    }

    /// Of one service: each with another bound, so that an answer tells which one it is of.
    static func limits(in world: SimulatedWorld, areWide: Bool = false) -> [LimitDefinition] {
        (0..<1 + world.pick(3)).map { number in
            let algorithm: LimitAlgorithm =
                switch world.pick(3) {
                case 0: .fixed
                case 1: .sliding
                default: .gcra(burst: world.draw(0...6))
                }
            return LimitDefinition(
                name: "\(number)", limit: 4 * world.draw(1...5) + Int64(number),
                window: .milliseconds(world.draw(50...1500)), algorithm: algorithm,
                isPerSubject: !areWide && world.happens(0.3), isShadow: number > 0 && world.happens(0.2))
        }
    }

    var services: [ServiceRules] { simulated.map(\.rules) }
    /// The batch under way and its own, each within its time, and something for the ways.
    var patience: Int64 { 2 * SimulatedRedisLink.commandTimeout + 100 }
    var isIdle: Bool { clients.allSatisfy(\.isIdle) }

    func number(of service: SimulatedService) -> Int { firstNumber + service.index }

    func furnish(_ sidecar: SimulatedSidecar) {
        sidecar.add(LimitRoom(sidecar: sidecar, services: simulated) { [unowned self] in sidecarCount })
    }

    func start(in fleet: SimulatedFleet) {
        sidecarCount = fleet.hosts.count
        clients = (0..<clientCount).map { _ in LimitClient(crowd: self, fleet: fleet) }
        for client in clients { client.think(Self.connecting...Self.connecting + habits.thinking.upperBound) }
    }

    func stop() {
        isStopping = true
    }
}

internal import Interlock
internal import InterlockCore

/// What a simulated service is like to call: well for a while, then ill in one way or another.
final class Upstream {
    enum Phase: CaseIterable {
        case well, failing, slow, busy, down
    }

    private let world: SimulatedWorld
    private(set) var phase = Phase.well
    /// The longest phase, in ms.
    private let longest: Int64
    /// The longest call while it is well, in ms.
    private let longestCall: Int64

    init(world: SimulatedWorld) {
        self.world = world
        longest = world.draw(200...6000)
        longestCall = world.happens(0.6) ? world.draw(1...40) : world.draw(40...2000)
    }

    func start() {
        world.schedule(after: world.draw(1...longest) * SimulatedWorld.millisecond) { [unowned self] in
            phase = phase == .well ? Phase.allCases[world.pick(Phase.allCases.count)] : .well
            start()
        }
    }

    /// How long a call takes, and what its caller reports.
    func call() -> OutcomeReport {
        let isFailure =
            switch phase {
            case .well, .slow: world.happens(0.02)
            case .failing: world.happens(0.7)
            case .busy, .down: true
            }
        var report = OutcomeReport(outcome: isFailure ? .error : .ok, latencyMilliseconds: world.draw(0...longestCall))
        if phase == .slow { report.latencyMilliseconds = world.draw(longestCall...3 * longestCall + 100) }
        if world.happens(0.03) { report.outcome = .ignore }
        if phase == .busy, world.happens(0.3) {
            report.status = 503
            report.retryAfterMilliseconds = world.draw(10...2000)
        }
        return report
    }
}

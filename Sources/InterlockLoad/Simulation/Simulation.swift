internal import InterlockCore

/// A fleet of sidecars that run the real decisions against a model of Redis, in a world that a seed decides wholly: how many
/// take part, what they do, what breaks and when. Whatever the history, its promises must hold.
public enum Simulation {
    /// How much of a run things may break in; the rest is calm.
    private static let brokenShare = 0.8
    /// So long after the last fault everything serves again, in ms: every connection has been tried again by then, and what
    /// lost messages cost is made up for.
    private static let recovery: Int64 = LockQueue.recheckMilliseconds + 1000

    /// Runs a seed to its end: faults for the greater part of `steps`, then calm until every operation has its answer.
    ///
    /// - Parameters:
    ///   - steps: how many events; a few more until all operations are answered.
    ///   - mutant: a rule of the scripts that is broken on purpose.
    ///   - parties: who takes part.
    public static func run(
        seed: UInt64, steps: Int, mutant: Mutant? = nil, parties: Set<SimulatedParty> = Set(SimulatedParty.allCases)
    ) -> SimulationOutcome {
        let run = SimulatedRun(seed: seed, mutant: mutant, parties: parties)
        run.start()
        run.go(until: Int(Double(steps) * brokenShare))
        run.mend()
        run.go(until: steps)
        run.settle(within: steps)
        return run.end(seed: seed)
    }

    /// One run, while it goes on.
    private final class SimulatedRun {
        private let world: SimulatedWorld
        private let fleet: SimulatedFleet
        private let faults: SimulatedFaults
        private let crowds: [any SimulatedCrowd]
        private var check: HistoryCheck
        private var digest = HistoryDigest()
        private var operations = 0
        private var grants = 0
        private var faultCount = 0
        private let began: Instant

        init(seed: UInt64, mutant: Mutant?, parties: Set<SimulatedParty>) {
            let world = SimulatedWorld(seed: seed)
            self.world = world
            began = world.now
            var crowds: [any SimulatedCrowd] = []
            for party in SimulatedParty.allCases where parties.contains(party) {
                crowds.append(party.crowd(in: world, firstService: crowds.reduce(0) { $0 + $1.services.count }))
            }
            self.crowds = crowds
            // Sidecars allow for 1 %.
            let redis = SimulatedRedis(world: world, mutant: mutant, clockRate: (world.random.unit() - 0.5) * 0.016)
            let hosts = (0..<1 + world.pick(6)).map { number in
                SidecarHost(number: number, world: world, server: redis) { sidecar in
                    for crowd in crowds { crowd.furnish(sidecar) }
                }
            }
            fleet = SimulatedFleet(world: world, redis: redis, hosts: hosts)
            faults = SimulatedFaults(fleet: fleet)
            check = HistoryCheck(
                rules: HistoryRules(
                    services: crowds.flatMap(\.services), sidecars: hosts.count,
                    patience: (crowds.map(\.patience).max() ?? 0) + 2 * SimulatedFaults.longest, recovery: recovery))
        }

        func start() {
            for host in fleet.hosts { host.start() }
            for crowd in crowds { crowd.start(in: fleet) }
            faults.start()
        }

        func go(until steps: Int) {
            while world.steps < steps, world.step() { observe() }
        }

        func mend() {
            faults.stop()
            while !faults.isWhole, world.step() { observe() }
        }

        /// Nobody begins anything new; what is under way ends by itself, or the checkers say that it does not.
        func settle(within steps: Int) {
            for crowd in crowds { crowd.stop() }
            let bound = world.steps + max(steps, 100_000)
            while world.steps < bound, !crowds.allSatisfy(\.isIdle), world.step() { observe() }
        }

        func end(seed: UInt64) -> SimulationOutcome {
            check.finish(at: world.now)
            let outcome = SimulationOutcome(
                seed: seed, steps: world.steps, operations: operations, grants: grants, faults: faultCount,
                duration: (world.now.nanoseconds - began.nanoseconds) / SimulatedWorld.millisecond, check: check.report,
                digest: digest.value)
            fleet.end()
            return outcome
        }

        private func observe() {
            for event in world.takeRecorded() {
                digest.add(event)
                count(event)
                check.observe(event)
            }
        }

        private func count(_ event: HistoryEvent) {
            switch event.what {
            case .invoked: operations += 1
            case .ended(_, .done(.granted)): grants += 1
            case .faultBegan: faultCount += 1
            default: break
            }
        }
    }
}

extension SimulatedParty {
    /// - Parameter firstService: the number of its first service in the history.
    fileprivate func crowd(in world: SimulatedWorld, firstService: Int) -> any SimulatedCrowd {
        switch self {
        case .locks: LockCrowd(world: world)
        case .limits: LimitCrowd(world: world, firstNumber: firstService)
        case .breakers: BreakerCrowd(world: world, firstNumber: firstService)
        }
    }
}

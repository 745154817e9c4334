import InterlockLoad
import Testing

@Suite("A simulated fleet", .timeLimit(.minutes(5)))
struct SimulationTests {
    @Test("keeps every promise, whatever breaks: 10⁵ steps over 20 seeds", arguments: 1...20 as ClosedRange<UInt64>)
    func keepsPromises(seed: UInt64) {
        let outcome = Simulation.run(seed: seed, steps: 5000)
        #expect(outcome.check.violations == [])
        #expect(outcome.steps >= 5000)
        #expect(outcome.operations > 0)
    }

    @Test("keeps the promises of locks alone", arguments: 101...110 as ClosedRange<UInt64>)
    func keepsPromisesOfLocks(seed: UInt64) {
        let outcome = Simulation.run(seed: seed, steps: 5000, parties: [.locks])
        #expect(outcome.check.violations == [])
        #expect(outcome.grants > 0)
    }

    @Test("the same seed gives the same history", arguments: SimulatedParty.allCases.map { [$0] } + [SimulatedParty.allCases])
    func replays(parties: [SimulatedParty]) {
        let first = Simulation.run(seed: 7, steps: 3000, parties: Set(parties))
        let second = Simulation.run(seed: 7, steps: 3000, parties: Set(parties))
        #expect(first.digest == second.digest)
        #expect(first.steps == second.steps)
    }

    @Test("another seed gives another history")
    func differs() {
        let first = Simulation.run(seed: 7, steps: 1000)
        let second = Simulation.run(seed: 8, steps: 1000)
        #expect(first.digest != second.digest)
    }

    @Test(
        "a rule of locks that is broken is found out within 30 seeds",
        arguments: [
            (Mutant.releaseWithoutToken, [Promise.exclusion]),
            (.noFence, [.risingFences]),
            (.renewWithoutToken, [.exclusion]),
            (.acquireWithoutCheck, [.exclusion]),
            (.lostWakeUps, [.answers]),
            (.writersPassReaders, [.exclusion]),
            (.oneMorePlace, [.exclusion]),
        ])
    func findsMutant(mutant: Mutant, promises: [Promise]) {
        let isFound = (1...30 as ClosedRange<UInt64>).contains { seed in
            let check = Simulation.run(seed: seed, steps: 3000, mutant: mutant, parties: [.locks]).check
            return check.violations.contains { promises.contains($0.promise) }
        }
        #expect(isFound)
    }
}

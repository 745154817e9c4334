import InterlockLoad
import Testing

@Suite("Limits and breakers of a simulated fleet", .timeLimit(.minutes(5)))
struct ServiceSimulationTests {
    @Test("limits keep their promises, whatever breaks", arguments: 201...210 as ClosedRange<UInt64>)
    func limits(seed: UInt64) {
        let outcome = Simulation.run(seed: seed, steps: 5000, parties: [.limits])
        #expect(outcome.check.violations == [])
        #expect(outcome.check.limitDecisions > 0)
    }

    @Test("breakers keep their promises, whatever breaks", arguments: 201...210 as ClosedRange<UInt64>)
    func breakers(seed: UInt64) {
        let outcome = Simulation.run(seed: seed, steps: 5000, parties: [.breakers])
        #expect(outcome.check.violations == [])
        #expect(outcome.operations > 0)
    }

    /// What seeds have found, and was mended: shares that were granted anew after each flap of Redis, smooth limits that took
    /// back what had come back by itself, and trials that outlived their half-open time or their own.
    @Test(
        "what seeds have found once stays mended",
        arguments: [
            (23, [.limits]), (172, [.limits]), (280, [.limits]),
            (1430, [.breakers]), (2117, [.breakers]),
            (1360, [.breakers]), (2729, [.breakers]),
        ] as [(UInt64, [SimulatedParty])])
    func staysMended(seed: UInt64, parties: [SimulatedParty]) {
        let outcome = Simulation.run(seed: seed, steps: 20_000, parties: Set(parties))
        #expect(outcome.check.violations == [])
    }

    @Test(
        "a rule of limits or breakers that is broken is found out within 30 seeds",
        arguments: [
            (Mutant.counterWithoutExpiry, SimulatedParty.limits, Promise.limitsRefill),
            (.oneMoreCall, .limits, .limits),
            (.lostCounts, .limits, .limits),
            (.tripWithoutGeneration, .breakers, .openBreakers),
            (.trialsWithoutBound, .breakers, .trials),
        ])
    func findsMutant(mutant: Mutant, party: SimulatedParty, promise: Promise) {
        let isFound = (1...30 as ClosedRange<UInt64>).contains { seed in
            let check = Simulation.run(seed: seed, steps: 10_000, mutant: mutant, parties: [party]).check
            return check.violations.contains { $0.promise == promise }
        }
        #expect(isFound)
    }
}

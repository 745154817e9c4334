import InterlockCore

import Testing

@testable import InterlockLoad

@Suite("Bad phases of an upstream")
struct FailurePhasesTests {
    private static let second: Int64 = 1_000_000_000

    private func phases(seed: UInt64) -> FailurePhases {
        FailurePhases(
            good: .seconds(3)...(.seconds(5)), bad: .seconds(1)...(.seconds(2)), length: .seconds(100),
            random: SeededRandom(seed: seed))
    }

    @Test("An upstream is healthy at the start and at the end")
    func upstreamIsHealthyAtStartAndAtEnd() {
        let phases = phases(seed: 1)
        #expect(!phases.isBad(atNanoseconds: 0))
        #expect(!phases.isBad(atNanoseconds: 2 * Self.second))
        #expect(!phases.isBad(atNanoseconds: 100 * Self.second))
        #expect(!phases.isBad(atNanoseconds: .max))
    }

    @Test("Phases have the configured lengths")
    func phasesHaveConfiguredLengths() {
        let phases = phases(seed: 1)
        let step: Int64 = 10_000_000
        var lengths: [(isBad: Bool, steps: Int64)] = []
        for time in 0..<9000 {
            let isBad = phases.isBad(atNanoseconds: Int64(time) * step)
            if lengths.last?.isBad == isBad { lengths[lengths.count - 1].steps += 1 } else { lengths.append((isBad, 1)) }
        }
        // The last phase is cut off.
        for (isBad, steps) in lengths.dropLast() { #expect((isBad ? 99...201 : 299...501).contains(steps)) }
        #expect(lengths.count > 20)
    }

    @Test("A seed determines the bad phases")
    func seedDeterminesBadPhases() {
        #expect(phases(seed: 1) == phases(seed: 1))
        #expect(phases(seed: 1) != phases(seed: 2))
    }
}

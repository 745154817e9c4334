import InterlockLoad
import Testing

@testable import InterlockLoad

@Suite("The model's limits are the scripts'", .timeLimit(.minutes(2)))
struct LimitModelTests {
    private static let start: Int64 = 1_760_000_000_000_000

    @Test("batches and give-backs at a clock that jumps have the same answers and leave the same keys")
    func agrees() async throws {
        try await SteeredRedis.withServer(atMicroseconds: Self.start) { redis in
            for seed in 1...10 as ClosedRange<UInt64> {
                var duel = LimitDuel(seed: seed, redis: redis)
                let difference = try await duel.fight(rounds: 200)
                #expect(difference == nil)
            }
        }
    }

    @Test("a rule that is broken is found out", arguments: [Mutant.counterWithoutExpiry, .oneMoreCall, .lostCounts])
    func differs(mutant: Mutant) async throws {
        try await SteeredRedis.withServer(atMicroseconds: Self.start) { redis in
            for seed in 1...20 as ClosedRange<UInt64> {
                var duel = LimitDuel(seed: seed, redis: redis, mutant: mutant)
                if try await duel.fight(rounds: 100) != nil { return }
            }
            Issue.record("20 seeds have not shown it")
        }
    }
}

import Interlock
import InterlockLoad
import Testing

@testable import InterlockLoad

@Suite("The model's breakers are the script's", .timeLimit(.minutes(2)))
struct BreakerModelTests {
    private static let start: Int64 = 1_760_000_000_000_000

    @Test("calls at a clock that jumps have the same replies, leave the same keys and tell the same")
    func agrees() async throws {
        try await SteeredRedis.withServer(atMicroseconds: Self.start) { redis in
            try await redis.listening(to: [BreakerDuel.keys.events]) { recorder in
                for seed in 1...40 as ClosedRange<UInt64> {
                    var duel = BreakerDuel(seed: seed, redis: redis, recorder: recorder)
                    let difference = try await duel.fight(rounds: 50)
                    #expect(difference == nil)
                }
            }
        }
    }

    @Test("a rule that is broken is found out", arguments: [Mutant.tripWithoutGeneration, .trialsWithoutBound])
    func differs(mutant: Mutant) async throws {
        try await SteeredRedis.withServer(atMicroseconds: Self.start) { redis in
            try await redis.listening(to: [BreakerDuel.keys.events]) { recorder in
                for seed in 1...20 as ClosedRange<UInt64> {
                    var duel = BreakerDuel(seed: seed, redis: redis, recorder: recorder, mutant: mutant)
                    if try await duel.fight(rounds: 100) != nil { return }
                }
                Issue.record("20 seeds have not shown it")
            }
        }
    }
}

import InterlockLoad
import Testing

@testable import InterlockLoad

@Suite("The model's locks are the scripts'", .timeLimit(.minutes(2)))
struct LockModelTests {
    private static let start: Int64 = 1_760_000_000_000_000

    @Test("acquires, renewals, releases and leaves at a clock that jumps are answered, published and kept alike")
    func agrees() async throws {
        try await withDuels { redis, recorder in
            for seed in 1...10 as ClosedRange<UInt64> {
                var duel = LockDuel(seed: seed, redis: redis, recorder: recorder)
                let difference = try await duel.fight(rounds: 300)
                #expect(difference == nil)
            }
        }
    }

    @Test(
        "a rule that is broken is found out",
        arguments: [
            Mutant.releaseWithoutToken, .noFence, .renewWithoutToken, .acquireWithoutCheck, .lostWakeUps, .writersPassReaders,
            .oneMorePlace,
        ])
    func differs(mutant: Mutant) async throws {
        try await withDuels { redis, recorder in
            for seed in 1...20 as ClosedRange<UInt64> {
                var duel = LockDuel(seed: seed, redis: redis, recorder: recorder, mutant: mutant)
                if try await duel.fight(rounds: 200) != nil { return }
            }
            Issue.record("20 seeds have not shown it")
        }
    }

    private func withDuels(_ body: (SteeredRedis, MessageRecorder) async throws -> Void) async throws {
        try await SteeredRedis.withServer(atMicroseconds: Self.start) { redis in
            try await redis.listening(to: LockDuel.channels) { recorder in
                try await body(redis, recorder)
            }
        }
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("CL.THROTTLE on a real Redis server")
struct ThrottleTests {
    private static let key = "interlock:throttle:{mail}"

    /// Returns the arrival time stored in Redis, in `count`-ths of a microsecond; `nil` if there is none.
    private func arrival(_ fleet: Fleet, count: Int64) async throws -> Int64? {
        guard let text = try await fleet.cli("GET", Self.key).text else { return nil }
        // The time is followed by a 0, the rate and the burst in 28 digits, and the count-ths of a microsecond.
        let parts = text.split(separator: ":")
        guard parts.count == 2, let whole = Int64(parts[0]), let fraction = Int64(parts[1].dropFirst(29)) else { return nil }
        return whole * count + fraction
    }

    /// Returns Redis's time in `count`-ths of a microsecond.
    private func time(_ fleet: Fleet, count: Int64) async throws -> Int64 {
        let parts = try await fleet.cli("TIME").array?.compactMap(\.integer) ?? []
        return (parts[0] * 1_000_000 + parts[1]) * count
    }

    /// Evaluates redis-cell's formulas with the arrival times in Redis before and after each call.
    @Test(
        "Each answer equals that of redis-cell's formulas",
        arguments: [(15, 30, 60), (0, 10, 1), (4, 7, 1), (2, 1000, 3), (9, 1, 2)] as [(Int64, Int64, Int64)])
    func eachAnswerEqualsThatOfRedisCellFormulas(burst: Int64, count: Int64, period: Int64) async throws {
        try await Fleet.run { fleet in
            var random = SystemRandomNumberGenerator()
            // In count-ths of a microsecond, all values are integers.
            let interval = period * 1_000_000
            let tolerance = interval * (burst + 1)
            func rounded(_ span: Int64, up: Bool) -> Int64 {
                let second = 1_000_000 * count
                return up ? (span + second - 1) / second : span / second
            }
            for _ in 0..<60 {
                let quantity = Int64.random(in: 0...(burst + 2), using: &random)
                let request = try #require(
                    ThrottleRequest(
                        key: try ResourceName("mail"), maximumBurst: burst, count: count, period: period, quantity: quantity))
                let old = try await arrival(fleet, count: count)
                let earliest = try await time(fleet, count: count)
                let decision = try await fleet.sidecars[0].throttle(request)
                let latest = try await time(fleet, count: count)
                #expect(decision.limit == burst + 1)
                // The answer must lie between the results for the earliest and the latest possible time.
                let (first, last) = (expected(at: earliest), expected(at: latest))
                if first.isLimited == last.isLimited { #expect(decision.isLimited == first.isLimited) }
                guard decision.isLimited == first.isLimited, decision.isLimited == last.isLimited else { continue }
                #expect(
                    (min(first.remaining, last.remaining)...max(first.remaining, last.remaining)).contains(decision.remaining))
                #expect((min(first.reset, last.reset)...max(first.reset, last.reset)).contains(decision.resetAfterSeconds))
                #expect((min(first.retry, last.retry)...max(first.retry, last.retry)).contains(decision.retryAfterSeconds))

                func expected(at now: Int64) -> (isLimited: Bool, remaining: Int64, retry: Int64, reset: Int64) {
                    let tat = max(now, old ?? now)
                    let next = tat + quantity * interval
                    let isLimited = now < next - tolerance
                    let delay = (isLimited ? tat : next) - now
                    let retry = isLimited && quantity <= burst + 1 ? rounded(next - tolerance - now, up: true) : -1
                    return (isLimited, max(0, (tolerance - delay) / interval), retry, rounded(delay, up: true))
                }
            }
        }
    }

    @Test("A quantity of 0 inspects and writes nothing")
    func quantityOfZero() async throws {
        try await Fleet.run { fleet in
            let inspection = try #require(
                ThrottleRequest(key: try ResourceName("mail"), maximumBurst: 4, count: 1, period: 60, quantity: 0))
            let decision = try await fleet.sidecars[0].throttle(inspection)
            #expect(
                decision == ThrottleResult(isLimited: false, limit: 5, remaining: 5, retryAfterSeconds: -1, resetAfterSeconds: 0))
            #expect(try await fleet.cli("EXISTS", Self.key).integer == 0)
        }
    }

    @Test("A quantity above the burst plus one can never be satisfied")
    func neverSatisfiable() async throws {
        try await Fleet.run { fleet in
            let request = try #require(
                ThrottleRequest(key: try ResourceName("mail"), maximumBurst: 4, count: 1, period: 60, quantity: 6))
            let decision = try await fleet.sidecars[0].throttle(request)
            #expect(
                decision == ThrottleResult(isLimited: true, limit: 5, remaining: 5, retryAfterSeconds: -1, resetAfterSeconds: 0))
        }
    }

    @Test("Without Redis, CL.THROTTLE is unavailable")
    func redisUnreachable() async throws {
        try await Fleet.run { fleet in
            await fleet.server.kill()
            let request = try #require(ThrottleRequest(key: try ResourceName("mail"), maximumBurst: 4, count: 1, period: 60))
            do {
                _ = try await fleet.sidecars[0].throttle(request)
                Issue.record("it was answered without Redis")
            } catch let error as InterlockError {
                #expect(error.code == .unavailable)
            }
        }
    }
}

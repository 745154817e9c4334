import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import RedisClient
import Testing

@Suite("Quotas of data planes are limited")
struct QuotaBoundsTests {
    @Test("All data planes together, and those of one API key, have a limited number of buckets here and keys in Redis")
    func dataPlanesHaveLimitedBuckets() async throws {
        let settings = DomainTests.settings([DescriptorRule(key: "tenant", limit: DomainTests.rate(10))])
        try await Fleet.run(domains: settings) { fleet in
            let sidecar = fleet.sidecars[0]
            let sessions = try await sidecar.eventLoop.submit {
                let coordinator = sidecar.loopBound()
                let sessions = try (0..<3).map { stream in
                    let session = try #require(
                        coordinator.beginQuotaSession(domain: "edge", address: "10.0.0.\(stream)", isReturning: false) { _ in })
                    session.report(
                        (0..<10_000).map { bucket in
                            QuotaUsage(
                                bucket: [DescriptorEntry(key: "tenant", value: "\(stream)-\(bucket)")], requestCount: 1)
                        })
                    return session
                }
                return NIOLoopBound(sessions, eventLoop: sidecar.eventLoop)
            }.get()
            var keys: Int64 = -1
            try await eventually(within: .seconds(60), "the number of keys is stable") {
                let before = keys
                keys = try await fleet.cli("EVAL", "return #redis.call('KEYS', 'interlock:quota:*')", "0").integer ?? 0
                return keys == before && keys >= 10_000
            }
            #expect(keys == 10_000)
            // Ended sessions return their quotas here immediately, and in Redis when the quotas expire.
            try await sidecar.eventLoop.submit { for session in sessions.value { session.end() } }.get()
        }
    }

    private static let now = Instant(nanoseconds: 0)
    private static let later = now.advanced(byMilliseconds: 20_000)

    private static func bucket(_ digest: Int) -> QuotaBudget.Bucket { QuotaBudget.Bucket(dataPlane: "1", digest: digest) }

    private static func newBudget() -> QuotaBudget {
        QuotaBudget(
            perClient: .init(bucketCount: 2, byteCount: 100, sessionCount: 1),
            total: .init(bucketCount: 3, byteCount: 100, sessionCount: 2))
    }

    private static func take(
        _ digests: Int..., of client: String = "a", bytes: Int = 10, at instant: Instant = now, from budget: inout QuotaBudget
    ) -> [Bool] {
        var taken: [Bool] = []
        for digest in digests { taken.append(budget.take(bucket(digest), bytes: bytes, of: client, now: instant) != nil) }
        return taken
    }

    @Test("Sessions, buckets and bytes are limited by client and in total")
    func bounds() {
        var budget = Self.newBudget()
        var sessions: [Bool] = []
        for client in ["a", "a", "b", "c"] { sessions.append(budget.beginSession(of: client)) }
        #expect(sessions == [true, false, true, false])
        #expect(Self.take(1, 2, 3, from: &budget) == [true, true, false])
        #expect(Self.take(4, 5, of: "b", from: &budget) == [true, false])
        budget.returnBucket(Self.bucket(1), bytes: 10, of: "a", until: Self.now, now: Self.now)
        #expect(Self.take(6, bytes: 81, from: &budget) == [false])
        #expect(Self.take(6, bytes: 80, from: &budget) == [true])
    }

    @Test("A data plane that reconnects gets its former buckets again and no others")
    func reconnects() {
        var budget = Self.newBudget()
        #expect(Self.take(1, 2, from: &budget) == [true, true])
        for digest in 1...2 {
            budget.returnBucket(Self.bucket(digest), bytes: 10, of: "a", until: Self.later, now: Self.now)
        }
        let before = Self.later.advanced(byMilliseconds: -1)
        #expect(Self.take(3, 1, 2, 3, at: before, from: &budget) == [false, true, true, false])
        #expect(budget.bucketCount == 2)
        // The restored buckets still count after their former expiry.
        #expect(Self.take(3, at: Self.later, from: &budget) == [false])
    }

    @Test("A restored bucket keeps the expiry of its key in Redis")
    func keepsItsExpiry() {
        var budget = Self.newBudget()
        #expect(budget.take(Self.bucket(1), bytes: 10, of: "a", now: Self.now) == Self.now)
        budget.returnBucket(Self.bucket(1), bytes: 10, of: "a", until: Self.later, now: Self.now)
        let before = Self.later.advanced(byMilliseconds: -1)
        #expect(budget.take(Self.bucket(1), bytes: 10, of: "a", now: before) == Self.later)
    }

    @Test("Each removed bucket counts until its own expiry, however many are removed after it")
    func eachUntilItsExpiry() {
        var budget = Self.newBudget()
        for number in 0..<100 {
            let now = Self.now.advanced(byMilliseconds: Int64(number) * 10_000)
            #expect(Self.take(number, at: now, from: &budget) == [true], "\(number)")
            budget.returnBucket(Self.bucket(number), bytes: 10, of: "a", until: now.advanced(byMilliseconds: 15_000), now: now)
        }
        #expect(budget.bucketCount <= 2)
    }
}

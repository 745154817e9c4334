import Hiredis
import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import Testing

@Suite("Quotas of data planes are bounded")
struct QuotaBoundsTests {
    @Test("all data planes together, and those of one API key, have a bounded number of buckets here and keys in Redis")
    func buckets() async throws {
        let settings = DomainTests.settings([DescriptorRule(key: "tenant", limit: DomainTests.rate(10))])
        try await Fleet.run(domains: settings) { fleet in
            let sidecar = fleet.sidecars[0]
            let sessions = try await sidecar.eventLoop.submit {
                let calls = sidecar.callsOnEventLoop()
                let sessions = try (0..<3).map { stream in
                    let session = try #require(
                        calls.beginQuotas(domain: "edge", address: "10.0.0.\(stream)", isReturning: false) { _ in })
                    session.report(
                        (0..<10_000).map { bucket in
                            QuotaUsage(bucket: [DescriptorEntry(key: "tenant", value: "\(stream)-\(bucket)")], requests: 1)
                        })
                    return session
                }
                return NIOLoopBound(sessions, eventLoop: sidecar.eventLoop)
            }.get()
            var keys: Int64 = -1
            try await eventually(within: .seconds(60), "all that is asked for is asked for") {
                let before = keys
                keys = try await fleet.cli("EVAL", "return #redis.call('KEYS', 'interlock:quota:*')", "0").integer ?? 0
                return keys == before && keys >= 10_000
            }
            #expect(keys == 10_000)
            // Ended sessions are given back at once here, and in Redis when their shares expire.
            try await sidecar.eventLoop.submit { for session in sessions.value { session.end() } }.get()
        }
    }

    @Test("a data plane that comes back has room for the buckets that it had")
    func comesBack() {
        var budget = QuotaBudget(
            ofClient: .init(buckets: 2, bytes: 100, sessions: 1), ofAll: .init(buckets: 3, bytes: 100, sessions: 2))
        let now = Instant(nanoseconds: 0)
        let later = now.advanced(byMilliseconds: 20_000)
        func takes(_ bytes: Int..., of client: String = "a", at instant: Instant) -> [Bool] {
            bytes.map { budget.take(bytes: $0, of: client, now: instant) }
        }
        var sessions: [Bool] = []
        for client in ["a", "a", "b", "c"] { sessions.append(budget.beginSession(of: client)) }
        #expect(sessions == [true, false, true, false])
        #expect(takes(10, 10, 10, at: now) == [true, true, false])
        #expect(takes(10, 10, of: "b", at: now) == [true, false])
        budget.giveBack(buckets: 2, bytes: 20, of: "a", dataPlane: "1", at: later, now: now)
        #expect(takes(10, at: later.advanced(byMilliseconds: -1)) == [false])
        budget.returned("1")
        #expect(takes(10, at: now) == [true])
        budget.giveBack(buckets: 1, bytes: 10, of: "a", dataPlane: "2", at: later, now: now)
        #expect(takes(80, 11, at: later) == [true, false])
        #expect(budget.buckets == 2)
    }
}

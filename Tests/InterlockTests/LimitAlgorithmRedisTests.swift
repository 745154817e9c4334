import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Limits of each algorithm on a real Redis server")
struct LimitAlgorithmRedisTests {
    static func service(_ limits: LimitDefinition..., name: String = "catalog") -> ServiceDefinition {
        ServiceDefinition(name: name, limits: limits)
    }

    static func perMinute(_ limit: Int64, _ algorithm: LimitAlgorithm, isShadow: Bool = false) -> LimitDefinition {
        LimitDefinition(name: "1m", limit: limit, window: .seconds(60), algorithm: algorithm, isShadow: isShadow)
    }

    @Test(
        "Hundreds of concurrent calls through three sidecars take exactly the capacity",
        arguments: [(.fixed, 50), (.sliding, 50), (.gcra(burst: 49), 50)] as [(LimitAlgorithm, Int)])
    func concurrent(algorithm: LimitAlgorithm, capacity: Int) async throws {
        // The gcra limit restores one call a minute, so none is restored during the test.
        let limit: Int64 = if case .gcra = algorithm { 1 } else { Int64(capacity) }
        try await Fleet.run(of: 3, services: [Self.service(Self.perMinute(limit, algorithm))]) { fleet in
            let takenCount = try await withThrowingTaskGroup(of: Bool.self) { group in
                for call in 0..<300 {
                    group.addTask { try await fleet.sidecars[call % 3].take(service: "catalog").isAllowed }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(takenCount == capacity)
        }
    }

    @Test("A sliding limit keeps a log of grants that lasts for a window")
    func slidingKey() async throws {
        try await Fleet.run(services: [Self.service(Self.perMinute(10, .sliding))]) { fleet in
            _ = try await fleet.sidecars[0].take(service: "catalog", cost: 2)
            _ = try await fleet.sidecars[0].take(service: "catalog", cost: 3)
            let key = "interlock:rate:{catalog}:1m~sliding"
            #expect(try await fleet.cli("HGET", key, "total").integer == 5)
            #expect(try await fleet.cli("HGET", key, "tail").integer == 2)
            #expect(try await fleet.cli("HGET", key, "1").text?.hasSuffix(":2") == true)
            let ttl = try await fleet.cli("PTTL", key).integer ?? 0
            #expect((40_000...60_001).contains(ttl))
        }
    }

    @Test("A gcra limit keeps the arrival time of the next call and expires at that time")
    func gcraKey() async throws {
        try await Fleet.run(services: [Self.service(Self.perMinute(6, .gcra(burst: 3)))]) { fleet in
            for _ in 0..<3 { _ = try await fleet.sidecars[0].take(service: "catalog") }
            let key = "interlock:rate:{catalog}:1m~gcra"
            let value = try #require(try await fleet.cli("GET", key).text)
            // The value holds the arrival time, limit, window, capacity, and a zero fraction of a microsecond.
            #expect(value.count == 16 + 1 + 30 && value.hasSuffix(":000000000060000006000000000040"), "\(value)")
            let ttl = try await fleet.cli("PTTL", key).integer ?? 0
            #expect((15_000...30_000).contains(ttl))
        }
    }

    @Test("A burst is granted immediately, and later calls get the time of the next slot")
    func burstIsGrantedImmediately() async throws {
        try await Fleet.run(services: [Self.service(Self.perMinute(6, .gcra(burst: 3)))]) { fleet in
            var decisions: [CallDecision] = []
            for _ in 0..<5 { decisions.append(try await fleet.sidecars[0].take(service: "catalog")) }
            #expect(decisions.map(\.isAllowed) == [true, true, true, true, false])
            #expect(decisions.map(\.remaining) == [3, 2, 1, 0, 0])
            #expect(decisions[4].limit == 6)
            #expect((1...10_000).contains(decisions[4].retryAfterMilliseconds ?? 0))
        }
    }

    @Test("A call refused by one algorithm's limit does not take from another's")
    func allOrNone() async throws {
        let log = LimitDefinition(name: "log", limit: 100, window: .seconds(60), algorithm: .sliding)
        let even = LimitDefinition(name: "even", limit: 1, window: .seconds(60), algorithm: .gcra(burst: 2))
        let count = LimitDefinition(name: "count", limit: 100, window: .seconds(60))
        try await Fleet.run(services: [Self.service(log, even, count)]) { fleet in
            for _ in 0..<8 { _ = try await fleet.sidecars[0].take(service: "catalog") }
            #expect(try await fleet.cli("HGET", "interlock:rate:{catalog}:log~sliding", "total").integer == 3)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:count").integer == 3)
        }
    }

    @Test(
        "Capacity granted to a caller that has left is refunded",
        arguments: [.fixed, .sliding, .gcra(burst: 9)] as [LimitAlgorithm])
    func capacityGrantedToCallerThatHasLeftIsRefunded(algorithm: LimitAlgorithm) async throws {
        let limit = LimitDefinition(name: "1h", limit: 10, window: .seconds(3600), algorithm: algorithm)
        try await Fleet.run(services: [Self.service(limit)]) { fleet in
            let sidecar = fleet.sidecars[0]
            var takenCount: Int64 = 0
            for _ in 0..<60 {
                let caller = Task { try await sidecar.take(service: "catalog") }
                caller.cancel()
                if (try? await caller.value)?.isAllowed == true { takenCount += 1 }
            }
            let expected = 10 - min(takenCount, 10)
            try await eventually(within: .seconds(10), "unused capacity is refunded") {
                try await sidecar.peek(service: "catalog").remaining == expected
            }
        }
    }

    @Test(
        "Peek returns the answer that a call would get, and does not take",
        arguments: [.fixed, .sliding, .gcra(burst: 9)] as [LimitAlgorithm])
    func peekAnswersLikeCallWithoutTaking(algorithm: LimitAlgorithm) async throws {
        let limit = LimitDefinition(name: "1h", limit: 10, window: .seconds(3600), algorithm: algorithm)
        try await Fleet.run(services: [Self.service(limit)]) { fleet in
            let sidecar = fleet.sidecars[0]
            #expect(try await sidecar.peek(service: "catalog").remaining == 10)
            for _ in 0..<10 { _ = try await sidecar.take(service: "catalog") }
            let peeked = try await sidecar.peek(service: "catalog")
            let decision = try await sidecar.take(service: "catalog")
            #expect(!peeked.isAllowed)
            #expect(peeked.remaining == decision.remaining)
            #expect(abs((peeked.retryAfterMilliseconds ?? 0) - (decision.retryAfterMilliseconds ?? 0)) < 10_000)
        }
    }

    @Test(
        "Waiters of a sliding and of a gcra limit are granted in order",
        arguments: [.sliding, .gcra(burst: 1)] as [LimitAlgorithm])
    func waiting(algorithm: LimitAlgorithm) async throws {
        let limit = LimitDefinition(name: "short", limit: 3, window: .milliseconds(200), algorithm: algorithm)
        try await Fleet.run(of: 2, services: [Self.service(limit)]) { fleet in
            let takenCount = try await withThrowingTaskGroup(of: Bool.self) { group in
                for call in 0..<14 {
                    group.addTask {
                        try await fleet.sidecars[call % 2].take(service: "catalog", waitMilliseconds: 30_000).isAllowed
                    }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(takenCount == 14)
        }
    }

    @Test("Sidecars whose callers wait for the same limit share it fairly")
    func fairness() async throws {
        let limit = LimitDefinition(name: "short", limit: 6, window: .milliseconds(300))
        try await Fleet.run(of: 3, services: [Self.service(limit)]) { fleet in
            for sidecar in fleet.sidecars {
                try await eventually("the sidecar knows the others") { await sidecar.status.fleet.count == 3 }
            }
            let granted = try await withThrowingTaskGroup(of: Int?.self) { group in
                for call in 0..<180 {
                    group.addTask {
                        let sidecar = call % 3
                        let decision = try await fleet.sidecars[sidecar].take(service: "catalog", waitMilliseconds: 60_000)
                        return decision.isAllowed ? sidecar : nil
                    }
                }
                // Only half of the callers are served, so that every sidecar still has waiting ones.
                var granted = [0, 0, 0]
                while granted.reduce(0, +) < 90, let served = try await group.next() { if let served { granted[served] += 1 } }
                group.cancelAll()
                while let result = await group.nextResult() { _ = result }
                return granted
            }
            // An even split is 30 each; head starts of milliseconds and a busy machine shift it.
            for count in granted { #expect((8...60).contains(count), "\(granted)") }
        }
    }

    @Test("A shadow limit refuses no call and counts calls up to its capacity")
    func shadow() async throws {
        let real = LimitDefinition(name: "real", limit: 100, window: .seconds(60))
        let shadow = LimitDefinition(name: "shadow", limit: 3, window: .seconds(60), isShadow: true)
        try await Fleet.run(services: [Self.service(real, shadow)]) { fleet in
            for _ in 0..<8 {
                let decision = try await fleet.sidecars[0].take(service: "catalog")
                #expect(decision.isAllowed)
            }
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:shadow").integer == 3)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:real").integer == 8)
            #expect(try await fleet.sidecars[0].peek(service: "catalog").limit == 100)
        }
    }

    @Test("A limit that is nearly used up, a reached one and shadow refusals are reported once each")
    func nearlyUsedLimitIsReportedOnce() async throws {
        let shadow = LimitDefinition(name: "shadow", limit: 9, window: .seconds(3600), isShadow: true)
        let real = LimitDefinition(name: "real", limit: 10, window: .seconds(3600))
        try await Fleet.run(services: [Self.service(real, shadow)]) { fleet in
            var events = fleet.sidecars[0].events.limits.makeAsyncIterator()
            for _ in 0..<15 { _ = try await fleet.sidecars[0].take(service: "catalog") }
            var reports: Set<String> = []
            for _ in 0..<4 {
                if let event = await events.next() {
                    reports.insert("\(event.payload.limitName) \(event.payload.kind.rawValue)")
                }
            }
            #expect(reports == ["real limit.near", "real limit.reached", "shadow limit.near", "shadow limit.shadow"])
        }
    }

    @Test("A limit whose algorithm changes in a reload starts a new counter next to its old one")
    func changedAlgorithm() async throws {
        try await Fleet.run(services: [Self.service(Self.perMinute(3, .fixed))]) { fleet in
            let sidecar = fleet.sidecars[0]
            for algorithm in [.fixed, .sliding, .gcra(burst: 2), .fixed] as [LimitAlgorithm] {
                try await sidecar.reload(services: [Self.service(Self.perMinute(3, algorithm))])
                let decision = try await sidecar.take(service: "catalog")
                #expect(decision.isAllowed)
            }
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:1m").integer == 2)
        }
    }

    @Test("Subjects that look like suffixes of other keys have their own counters")
    func keys() async throws {
        let user = LimitDefinition(name: "user", limit: 1, window: .seconds(60), algorithm: .sliding, isPerSubject: true)
        let count = LimitDefinition(name: "count", limit: 1, window: .seconds(60), isPerSubject: true)
        try await Fleet.run(services: [Self.service(user, count)]) { fleet in
            for subject in ["a", "a:b", "~sliding", "~sliding:a", "count:a", ":a", "a~gcra"] {
                let decision = try await fleet.sidecars[0].take(service: "catalog", subject: subject)
                #expect(decision.isAllowed, "\(subject)")
            }
            let counters = try await fleet.cli("DBSIZE").integer ?? 0
            #expect(counters >= 14)
        }
    }

    @Test(
        "A damaged counter is an error, and no other limit is charged",
        arguments: [.sliding, .gcra(burst: 3)] as [LimitAlgorithm])
    func damagedCounterIsError(algorithm: LimitAlgorithm) async throws {
        let wide = LimitDefinition(name: "wide", limit: 100, window: .seconds(60))
        try await Fleet.run(services: [Self.service(wide, Self.perMinute(10, algorithm))]) { fleet in
            let suffix = algorithm == .sliding ? "~sliding" : "~gcra"
            try await fleet.cli("SET", "interlock:rate:{catalog}:1m\(suffix)", "many")
            await #expect(throws: InterlockError.self) { try await fleet.sidecars[0].take(service: "catalog") }
            #expect(try await fleet.cli("EXISTS", "interlock:rate:{catalog}:wide").integer == 0)
        }
    }

    @Test(
        "Without Redis each algorithm grants this sidecar's local quota",
        arguments: [.sliding, .gcra(burst: 9)] as [LimitAlgorithm])
    func redisUnreachable(algorithm: LimitAlgorithm) async throws {
        let limit = LimitDefinition(name: "1h", limit: 10, window: .seconds(3600), algorithm: algorithm)
        try await Fleet.run(services: [Self.service(limit)]) { fleet in
            let sidecar = fleet.sidecars[0]
            await fleet.server.kill()
            try await eventually(within: .seconds(10), "the sidecar has noticed that Redis is down") {
                await !sidecar.status.isRedisUp
            }
            var takenCount = 0
            for _ in 0..<15 { if try await sidecar.take(service: "catalog").isAllowed { takenCount += 1 } }
            #expect(takenCount == 10)
        }
    }
}

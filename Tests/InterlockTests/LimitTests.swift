import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Limits on a real Redis server")
struct LimitTests {
    private static func service(
        _ limits: [LimitDefinition], onLimit: LimitPolicy = LimitPolicy(), whenRedisIsDown: OutagePolicy = .local
    ) -> ServiceDefinition {
        ServiceDefinition(name: "catalog", limits: limits, onLimit: onLimit, whenRedisIsDown: whenRedisIsDown)
    }

    private static let tenPerMinute = LimitDefinition(name: "1m", limit: 10, window: .seconds(60))

    @Test("Two sidecars share one exact limit, and its counter expires a window after its first call")
    func sidecarsShareLimit() async throws {
        try await Fleet.run(of: 2, services: [Self.service([Self.tenPerMinute])]) { fleet in
            var takenCount = 0
            for index in 0..<24 {
                if try await fleet.sidecars[index % 2].take(service: "catalog").isAllowed { takenCount += 1 }
            }
            #expect(takenCount == 10)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:1m").integer == 10)
            let ttl = try await fleet.cli("PTTL", "interlock:rate:{catalog}:1m").integer ?? 0
            #expect((50_000...60_000).contains(ttl))
        }
    }

    @Test("Hundreds of concurrent calls through two sidecars take exactly the limit")
    func concurrentCallsTakeExactlyLimit() async throws {
        let limit = LimitDefinition(name: "1m", limit: 100, window: .seconds(60))
        try await Fleet.run(of: 2, services: [Self.service([limit])]) { fleet in
            let takenCount = try await withThrowingTaskGroup(of: Bool.self) { group in
                for call in 0..<400 {
                    group.addTask { try await fleet.sidecars[call % 2].take(service: "catalog").isAllowed }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(takenCount == 100)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:1m").integer == 100)
        }
    }

    @Test("A refused call does not take from any limit of the service")
    func allOrNone() async throws {
        let wide = LimitDefinition(name: "wide", limit: 100, window: .seconds(60))
        let narrow = LimitDefinition(name: "narrow", limit: 3, window: .seconds(60))
        try await Fleet.run(services: [Self.service([wide, narrow])]) { fleet in
            for _ in 0..<8 { _ = try await fleet.sidecars[0].take(service: "catalog") }
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:wide").integer == 3)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:narrow").integer == 3)
        }
    }

    @Test("A cost above what a limit can ever grant is an error that names the limit, for takes and permits")
    func tooExpensive() async throws {
        let smooth = LimitDefinition(name: "smooth", limit: 100, window: .seconds(60), algorithm: .gcra(burst: 4))
        try await Fleet.run(services: [Self.service([Self.tenPerMinute, smooth])]) { fleet in
            let sidecar = fleet.sidecars[0]
            let expected = [
                (Int64(11), "a call of cost 11 can never be granted: the limit 1m of the service \"catalog\" is 10"),
                (
                    6,
                    "a call of cost 6 can never be granted: the limit smooth of the service \"catalog\" grants at most 5 at once"
                ),
            ]
            for (cost, message) in expected {
                for wait: Int64 in [0, 50_000] {
                    let take = await #expect(throws: InterlockError.self) {
                        try await sidecar.take(service: "catalog", cost: cost, waitMilliseconds: wait)
                    }
                    #expect(take == InterlockError(.invalid, message))
                    let permit = await #expect(throws: InterlockError.self) {
                        if case .failed(let error) = try await sidecar.acquirePermit(
                            service: "catalog", cost: cost, waitMilliseconds: wait)
                        {
                            throw error
                        }
                    }
                    #expect(permit == InterlockError(.invalid, message))
                }
            }
            let largest = try await sidecar.take(service: "catalog", cost: 5)
            #expect(largest.isAllowed)
        }
    }

    @Test("A subject counts toward its own limit and the service's")
    func subjectCountsTowardBothLimits() async throws {
        let perUser = LimitDefinition(name: "user", limit: 2, window: .seconds(60), isPerSubject: true)
        try await Fleet.run(services: [Self.service([Self.tenPerMinute, perUser])]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<3 { _ = try await sidecar.take(service: "catalog", subject: "ann") }
            #expect(try await sidecar.take(service: "catalog", subject: "ann").isAllowed == false)
            #expect(try await sidecar.take(service: "catalog", subject: "bob").isAllowed)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:user:ann").integer == 2)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:1m").integer == 3)
        }
    }

    @Test("Subjects of one batch are evaluated separately, and each call takes its own cost")
    func batchOfSubjects() async throws {
        let perUser = LimitDefinition(name: "user", limit: 5, window: .seconds(60), isPerSubject: true)
        let wide = LimitDefinition(name: "wide", limit: 1000, window: .seconds(60))
        try await Fleet.run(services: [Self.service([wide, perUser])]) { fleet in
            let takenCost = try await withThrowingTaskGroup(of: Int64.self) { group in
                for call in 0..<60 {
                    group.addTask {
                        let cost = Int64(call % 2 + 1)
                        let decision = try await fleet.sidecars[0].take(
                            service: "catalog", cost: cost, subject: "user\(call % 6)")
                        return decision.isAllowed ? cost : 0
                    }
                }
                return try await group.reduce(0, +)
            }
            var countedCost: Int64 = 0
            for user in 0..<6 {
                let count = try await fleet.cli("GET", "interlock:rate:{catalog}:user:user\(user)").integer ?? 0
                #expect(count <= 5)
                countedCost += count
            }
            #expect(countedCost == takenCost)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:wide").integer == takenCost)
        }
    }

    @Test("A remembered refusal sends nothing to Redis")
    func rememberedRefusal() async throws {
        try await Fleet.run(services: [Self.service([Self.tenPerMinute])]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<11 { _ = try await sidecar.take(service: "catalog") }
            let before = await sidecar.status.redisCommandCount
            for _ in 0..<100 { #expect(try await sidecar.take(service: "catalog").isAllowed == false) }
            // A heartbeat may occur during these hundred calls, but refusals send no commands.
            #expect(await sidecar.status.redisCommandCount - before < 10)
        }
    }

    @Test("A wait is granted in the next window")
    func waitIsGrantedInNextWindow() async throws {
        let limit = LimitDefinition(name: "short", limit: 2, window: .milliseconds(300))
        try await Fleet.run(services: [Self.service([limit])]) { fleet in
            for _ in 0..<5 {
                let decision = try await fleet.sidecars[0].take(service: "catalog", waitMilliseconds: 20_000)
                #expect(decision.isAllowed)
            }
        }
    }

    @Test("A wait that cannot end in time is refused immediately, with the time when it could be granted")
    func hopelessWait() async throws {
        try await Fleet.run(services: [Self.service([Self.tenPerMinute])]) { fleet in
            _ = try await fleet.sidecars[0].take(service: "catalog", cost: 10)
            let hopeless = try await fleet.sidecars[0].take(service: "catalog", waitMilliseconds: 1000)
            #expect(hopeless.isAllowed == false)
            #expect(hopeless.retryAfterMilliseconds ?? 0 > 30_000)
        }
    }

    @Test("Waiting calls are granted in order, one window's capacity at a time")
    func waitingInTurn() async throws {
        let limit = LimitDefinition(name: "short", limit: 3, window: .milliseconds(200))
        try await Fleet.run(services: [Self.service([limit])]) { fleet in
            let takenCount = try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<12 {
                    group.addTask { try await fleet.sidecars[0].take(service: "catalog", waitMilliseconds: 30_000).isAllowed }
                }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(takenCount == 12)
        }
    }

    @Test("Capacity granted to a caller that has left is refunded")
    func capacityOfLeftCallerIsRefunded() async throws {
        try await Fleet.run(services: [Self.service([Self.tenPerMinute])]) { fleet in
            let sidecar = fleet.sidecars[0]
            var takenCount = 0
            for _ in 0..<60 {
                let caller = Task { try await sidecar.take(service: "catalog") }
                caller.cancel()
                if (try? await caller.value)?.isAllowed == true { takenCount += 1 }
            }
            let expected = Int64(min(takenCount, 10))
            try await eventually(within: .seconds(5), "the counter holds what was used") {
                (try await fleet.cli("GET", "interlock:rate:{catalog}:1m").integer ?? 0) == expected
            }
        }
    }

    @Test("Peek returns the answer that a call would get, and does not take")
    func peekDoesNotTake() async throws {
        try await Fleet.run(services: [Self.service([Self.tenPerMinute])]) { fleet in
            let sidecar = fleet.sidecars[0]
            #expect(try await sidecar.peek(service: "catalog").remaining == 10)
            for _ in 0..<10 { _ = try await sidecar.take(service: "catalog") }
            let decision = try await sidecar.peek(service: "catalog")
            #expect(decision.isAllowed == false)
            #expect(decision.remaining == 0)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:1m").integer == 10)
        }
    }

    @Test("A counter that lost its ttl gets a new one, and one that is not a number is an error")
    func damagedCounters() async throws {
        try await Fleet.run(services: [Self.service([Self.tenPerMinute])]) { fleet in
            try await fleet.cli("SET", "interlock:rate:{catalog}:1m", "3")
            #expect(try await fleet.sidecars[0].take(service: "catalog").remaining == 6)
            #expect(try await fleet.cli("PTTL", "interlock:rate:{catalog}:1m").integer ?? 0 > 0)
            try await fleet.cli("SET", "interlock:rate:{catalog}:1m", "many")
            await #expect(throws: InterlockError.self) { try await fleet.sidecars[0].take(service: "catalog") }
        }
    }

    @Test(
        "A counter that was written by hand may be any number",
        arguments: ["9223372036854775807", "-9223372036854775808", "-9200000000000000000", "1e300", "inf", "nan"])
    func hugeCounters(count: String) async throws {
        for algorithm in [LimitAlgorithm.fixed, .sliding] {
            let limit = LimitDefinition(name: "1m", limit: 10, window: .seconds(60), algorithm: algorithm)
            try await Fleet.run(services: [Self.service([limit])]) { fleet in
                let sidecar = fleet.sidecars[0]
                _ = try await sidecar.take(service: "catalog")
                if algorithm == .fixed {
                    try await fleet.cli("SET", "interlock:rate:{catalog}:1m", count, "KEEPTTL")
                } else {
                    try await fleet.cli("HSET", "interlock:rate:{catalog}:1m~sliding", "total", count)
                }
                let peeked = try await sidecar.peek(service: "catalog")
                #expect(peeked.isAllowed == count.hasPrefix("-"), "\(algorithm)")
                #expect((peeked.remaining > 0) == count.hasPrefix("-"), "\(algorithm)")
                // A counter that the script cannot read as an integer is an error; nothing is granted beyond the limit.
                if let decision = try? await sidecar.take(service: "catalog") {
                    #expect(decision.isAllowed == count.hasPrefix("-"))
                }
                #expect(await sidecar.status.isRedisUp)
            }
        }
    }

    @Test("A refused call leaves a counter that was set below zero unchanged")
    func negativeCounter() async throws {
        let limits = ["a", "b"].map { LimitDefinition(name: $0, limit: 10, window: .seconds(60)) }
        try await Fleet.run(services: [Self.service(limits)]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await sidecar.take(service: "catalog")
            try await fleet.cli("SET", "interlock:rate:{catalog}:a", "-5", "KEEPTTL")
            try await fleet.cli("SET", "interlock:rate:{catalog}:b", "10", "KEEPTTL")
            #expect(try await !sidecar.take(service: "catalog").isAllowed)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:a").text == "-5")
        }
    }

    @Test("A cached window end neither revives a deleted counter nor leaves one without a ttl")
    func cachedEnd() async throws {
        let limit = LimitDefinition(name: "short", limit: 1_000_000, window: .milliseconds(300))
        try await Fleet.run(services: [Self.service([limit])]) { fleet in
            let (key, sidecar) = ("interlock:rate:{catalog}:short", fleet.sidecars[0])
            for _ in 0..<4 { _ = try await sidecar.take(service: "catalog") }
            try await fleet.cli("DEL", key)
            let first = try await sidecar.take(service: "catalog")
            #expect((1...300).contains(first.resetAfterMilliseconds))
            #expect(try await fleet.cli("PTTL", key).integer ?? 0 > 0)
            _ = try await sidecar.take(service: "catalog")
            try await fleet.cli("PERSIST", key)
            try await eventually("the counter has a ttl again") {
                _ = try await sidecar.take(service: "catalog")
                return try await fleet.cli("PTTL", key).integer ?? -1 > 0
            }
        }
    }

    @Test("A reload changes the limit immediately despite remembered refusals")
    func reloadChangesLimitImmediately() async throws {
        try await Fleet.run(services: [Self.service([Self.tenPerMinute])]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<11 { _ = try await sidecar.take(service: "catalog") }
            var more = Self.tenPerMinute
            more.limit = 12
            try await sidecar.reload(services: [Self.service([more])])
            #expect(try await sidecar.take(service: "catalog").isAllowed)
            #expect(try await sidecar.take(service: "catalog").isAllowed)
            #expect(try await sidecar.take(service: "catalog").isAllowed == false)
            try await sidecar.reload(services: [])
            await #expect(throws: InterlockError.self) { try await sidecar.take(service: "catalog") }
        }
    }

    @Test("Calls that wait when a reload removes the limits or the service are answered immediately", arguments: [false, true])
    func removedByReload(keepsService: Bool) async throws {
        let limit = LimitDefinition(name: "long", limit: 1, window: .seconds(30))
        try await Fleet.run(services: [Self.service([limit])]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await sidecar.take(service: "catalog")
            let waiter = Task { try await sidecar.take(service: "catalog", waitMilliseconds: 50_000) }
            #expect(try await sidecar.take(service: "catalog").isAllowed == false)
            try await sidecar.reload(services: keepsService ? [Self.service([])] : [])
            await #expect(throws: InterlockError.self) { try await waiter.value }
        }
    }

    @Test("Refunded capacity goes to a waiting call")
    func refundedToWaiter() async throws {
        let limit = LimitDefinition(name: "long", limit: 2, window: .seconds(30))
        let service = ServiceDefinition(name: "catalog", limits: [limit])
        try await Fleet.run(services: [service]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await sidecar.take(service: "catalog")
            let before = await sidecar.status.redisCommandCount
            await fleet.server.pause()
            let leaver = Task { try await sidecar.acquirePermit(service: "catalog") }
            try await eventually(within: .seconds(10), "Redis received a command") {
                await sidecar.status.redisCommandCount > before
            }
            leaver.cancel()
            _ = try? await leaver.value
            let waiter = Task { try await sidecar.take(service: "catalog", waitMilliseconds: 50_000) }
            let started = ContinuousClock.now
            await fleet.server.resume()
            #expect(try await waiter.value.isAllowed)
            #expect(started.duration(to: .now) < .seconds(10))
        }
    }

    @Test("Without Redis each policy applies", arguments: OutagePolicy.allCases)
    func redisUnreachable(policy: OutagePolicy) async throws {
        try await Fleet.run(services: [Self.service([Self.tenPerMinute], whenRedisIsDown: policy)]) { fleet in
            let sidecar = fleet.sidecars[0]
            await fleet.server.kill()
            try await eventually(within: .seconds(10), "the sidecar has noticed that Redis is down") {
                await !sidecar.status.isRedisUp
            }
            switch policy {
            case .local:
                var takenCount = 0
                for _ in 0..<15 { if try await sidecar.take(service: "catalog").isAllowed { takenCount += 1 } }
                #expect(takenCount == 10)
            case .allow:
                for _ in 0..<15 { #expect(try await sidecar.take(service: "catalog").isAllowed) }
            case .deny:
                await #expect(throws: InterlockError.self) { try await sidecar.take(service: "catalog") }
            }
        }
    }
}

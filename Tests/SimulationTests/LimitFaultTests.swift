import Interlock
import InterlockCore
import SimulatedRedis
import Testing

@testable import Simulation

/// Regression tests for faults of limits. Each test is the shortest story that shows one.
@Suite("Limits: regressions", .timeLimit(.minutes(2)))
struct LimitFaultTests {
    /// A service with a common limit and a limit per subject. The windows are in seconds.
    private static func service(all: Int64, in window: Int, each: Int64, in subjectWindow: Int) -> ServiceDefinition {
        ServiceDefinition(
            name: "api",
            limits: [
                LimitDefinition(name: "all", limit: all, window: .seconds(window)),
                LimitDefinition(name: "each", limit: each, window: .seconds(subjectWindow), isPerSubject: true),
            ])
    }

    static func service(
        _ algorithm: LimitAlgorithm = .fixed, limit: Int64 = 10, window: Duration = .seconds(3600), perSubject: Bool = false,
        waiting: Int = 100, whenDown: OutagePolicy = .local
    ) -> ServiceDefinition {
        ServiceDefinition(
            name: "api",
            limits: [LimitDefinition(name: "main", limit: limit, window: window, algorithm: algorithm, isPerSubject: perSubject)],
            onLimit: LimitPolicy(maximumWaiting: waiting), whenRedisIsDown: whenDown)
    }

    /// Takes `count` times. Returns how many of the takes were granted.
    private func grantCount(_ count: Int, on stage: Stage, subject: String? = nil, through sidecar: Int = 0) -> Int {
        (0..<count).count { _ in stage.result(of: stage.take("api", subject: subject, through: sidecar))?.isAllowed == true }
    }

    private func cutOff(_ stage: Stage) {
        for sidecar in stage.sidecars.indices { stage.path(of: sidecar).isBlackHole = true }
        stage.run(milliseconds: 2000)
    }

    @Test(
        "Capacity that another sidecar refunds, or whose count Redis deletes or loses, can be taken within a second",
        arguments: [0, 1, 2, 3])
    func rememberedTooLong(variant: Int) throws {
        let stage = Stage(sidecars: 2, services: [Self.service(limit: 1)])
        #expect(grantCount(1, on: stage, through: 1) == 1)
        #expect(grantCount(3, on: stage) == 0)
        switch variant {
        case 0: stage.cli("DEL", "interlock:rate:{api}:main")
        case 1: stage.redis.wipe()
        case 2:
            // Redis restarts empty.
            stage.redis.crash()
            stage.run(milliseconds: 200)
            stage.redis.start(with: .none)
            stage.run(milliseconds: 1000)
        default: stage.cli("DECRBY", "interlock:rate:{api}:main", "1")
        }
        stage.run(milliseconds: 1001)
        #expect(grantCount(1, on: stage) == 1)
    }

    @Test(
        "A thousand calls of a client that disconnects are refunded together",
        arguments: [.fixed, .sliding, .gcra(burst: 1999)] as [LimitAlgorithm])
    func refundedTogether(algorithm: LimitAlgorithm) throws {
        let stage = Stage(services: [Self.service(algorithm, limit: 2000)], redisMilliseconds: 5)
        let before = stage.status()?.redisCommandCount ?? 0
        let client = stage.connect(to: 0)
        client.send(Array(repeating: ["PERMIT.ACQUIRE", "api"], count: 1000))
        stage.run(milliseconds: 2)
        client.close()
        stage.run(milliseconds: 200)
        #expect((stage.status()?.redisCommandCount ?? 0) - before < 40)
        let answer = stage.result(of: stage.take("api"))
        guard case .decided(let decided)? = answer else { return #expect(answer != nil) }
        #expect(decided.remaining == 1999)
    }

    @Test("Made-up subjects fill Redis up to max_subjects and do not affect known subjects")
    func madeUpSubjectsInRedis() throws {
        var service = Self.service(limit: 2, perSubject: true)
        service.maximumSubjects = 3
        let stage = Stage(services: [service])
        for subject in ["a", "b", "c"] { #expect(grantCount(1, on: stage, subject: subject) == 1) }
        // Further subjects share one subject's limit.
        #expect((0..<20).count { grantCount(1, on: stage, subject: "made-up-\($0)") == 1 } == 2)
        for subject in ["a", "b", "c"] { #expect(grantCount(2, on: stage, subject: subject) == 1) }
        #expect(stage.cli("KEYS", "interlock:rate:*").split(separator: "interlock:rate:").count == 1 + 4)
    }

    @Test("The status reports a Redis without free memory")
    func outOfMemory() throws {
        let stage = Stage(services: [Self.service()])
        stage.redis.server.condition = .outOfMemory
        let request = LockRequest(name: try ResourceName("orders"), ttlMilliseconds: 5000)
        let answer = try #require(stage.result(of: stage.acquire(request)))
        guard case .failed(let error) = answer else { throw InterlockError(.other, "\(answer)") }
        #expect(error.code == .unavailable)
        #expect(stage.status()?.redisFailure?.hasPrefix("OOM") == true)
        stage.redis.server.condition = .serving
        stage.run(milliseconds: 11_000)
        #expect(stage.status()?.redisFailure == nil)
    }

    @Test("A waiting call is granted capacity that other software frees")
    func waitsForFreedCapacity() throws {
        let stage = Stage(sidecars: 2, services: [Self.service(.sliding, limit: 1, window: .seconds(20))])
        #expect(grantCount(1, on: stage, through: 1) == 1)
        let waiter = stage.take("api", waitMilliseconds: 30_000)
        stage.run(milliseconds: 500)
        stage.cli("DEL", "interlock:rate:{api}:main~sliding")
        stage.run(milliseconds: 1500)
        #expect(waiter.result?.isAllowed == true)
    }

    @Test(
        "A clock set back by an hour stops no limit for longer than its window",
        arguments: [.fixed, .sliding, .gcra(burst: 0)] as [LimitAlgorithm])
    func clockSetBackStopsNoLimitForLong(algorithm: LimitAlgorithm) throws {
        let stage = Stage(services: [Self.service(algorithm, limit: 5, window: .seconds(2))])
        #expect(grantCount(5, on: stage) >= 1)
        stage.redis.setClock(aheadByMilliseconds: -3_600_000)
        stage.run(milliseconds: 1500)
        // Any call notices the jump, even a refused one.
        _ = grantCount(1, on: stage)
        stage.run(milliseconds: 3000)
        #expect(grantCount(1, on: stage) == 1)
        stage.run(milliseconds: 4000)
        stage.redis.setClock(aheadByMilliseconds: 0)
        stage.run(milliseconds: 1500)
        _ = grantCount(1, on: stage)
        stage.run(milliseconds: 3000)
        #expect(grantCount(1, on: stage) == 1)
    }

    @Test(
        "A clock set back by less than a window stops no limit for longer than that window",
        arguments: [.fixed, .sliding, .gcra(burst: 4)] as [LimitAlgorithm])
    func clockSetBackALittle(algorithm: LimitAlgorithm) throws {
        let stage = Stage(services: [Self.service(algorithm, limit: 5, window: .seconds(2))])
        #expect(grantCount(5, on: stage) == 5)
        stage.redis.setClock(aheadByMilliseconds: -1900)
        #expect(grantCount(1, on: stage) == 0)
        stage.run(milliseconds: 2100)
        #expect(grantCount(1, on: stage) == 1)
    }

    @Test("After the clock was set back, a refunded call in the future does not keep later calls in a sliding window")
    func clockSetBackAfterARefund() throws {
        let stage = Stage(services: [Self.service(.sliding, limit: 2, window: .seconds(10))])
        #expect(grantCount(1, on: stage) == 1)
        // Changes the log as refund.lua does.
        let refund = """
            local entry = redis.call('HGET', KEYS[1], '1')
            return redis.call('HSET', KEYS[1], '1', (string.gsub(entry, ':1$', ':0')), 'total', '0')
            """
        #expect(stage.cli("EVAL", refund, "1", "interlock:rate:{api}:main~sliding") == ":0")
        stage.redis.setClock(aheadByMilliseconds: -5000)
        #expect(grantCount(1, on: stage) == 1)
        stage.run(milliseconds: 9000)
        #expect(grantCount(1, on: stage) == 1)
        stage.run(milliseconds: 1500)
        #expect(grantCount(1, on: stage) == 1)
    }

    @Test(
        "A client that retries after the time it was given is granted, within a second at a limit of one per second",
        arguments: [.fixed, .sliding, .gcra(burst: 0)] as [LimitAlgorithm])
    func retryAtTheSuggestedTime(algorithm: LimitAlgorithm) throws {
        let stage = Stage(services: [Self.service(algorithm, limit: 1, window: .seconds(1))])
        for _ in 0..<10 {
            guard case .decided(let decided)? = stage.result(of: stage.take("api")) else { return #expect(Bool(false)) }
            guard let wait = decided.retryAfterMilliseconds else { continue }
            #expect(wait <= 1000)
            stage.run(milliseconds: wait)
            #expect(grantCount(1, on: stage) == 1)
        }
    }

    @Test("Raising a gcra limit drops debt that exceeds what the new limit allows")
    func raised() throws {
        let stage = Stage(services: [Self.service(.gcra(burst: 0), limit: 1, window: .seconds(60_000))])
        #expect(grantCount(1, on: stage) == 1)
        stage.sidecars[0].reload([Self.service(.gcra(burst: 0), limit: 60, window: .seconds(60))])
        stage.run(milliseconds: 100)
        _ = grantCount(1, on: stage)
        stage.run(milliseconds: 2100)
        #expect(grantCount(1, on: stage) == 1)
    }

    @Test("The local quota of a sidecar that was alone is divided when other sidecars join")
    func dividedQuota() throws {
        let stage = Stage(sidecars: 5, services: [Self.service(limit: 10)])
        // Each sidecar counted on its own while it knew no other one.
        cutOff(stage)
        for sidecar in 0..<5 { #expect(grantCount(1, on: stage, through: sidecar) == 1) }
        for sidecar in 0..<5 { stage.path(of: sidecar).isBlackHole = false }
        stage.run(milliseconds: 8000)
        #expect(stage.status()?.fleet.count == 5)
        cutOff(stage)
        let total = (0..<5).map { grantCount(10, on: stage, through: $0) }.reduce(0, +)
        #expect(total <= 5)
    }

    @Test("A sidecar that granted calls while it was alone grants only the rest of its smaller quota once another joins")
    func beganAlone() throws {
        let stage = Stage(sidecars: 2, services: [Self.service(limit: 10)])
        // The first sidecar forgets the second one.
        stage.sidecars[1].kill()
        stage.run(milliseconds: 40_000)
        stage.path(of: 0).isBlackHole = true
        stage.run(milliseconds: 2000)
        #expect(grantCount(4, on: stage) == 4)
        stage.path(of: 0).isBlackHole = false
        stage.sidecars[1].start()
        stage.run(milliseconds: 8000)
        cutOff(stage)
        #expect(grantCount(10, on: stage) == 1)
        #expect(grantCount(10, on: stage, through: 1) == 5)
    }

    @Test("Sidecars that know each other divide a limit while Redis is unreachable")
    func sideBySide() throws {
        let stage = Stage(sidecars: 2, services: [Self.service(limit: 10)])
        stage.run(milliseconds: 40_000)
        cutOff(stage)
        #expect(grantCount(10, on: stage) == 5)
        #expect(grantCount(10, on: stage, through: 1) == 5)
    }

    @Test(
        "While Redis is unreachable, made-up subjects use up no other quota, and a subject without a counter may retry soon"
    )
    func madeUpSubjects() throws {
        let stage = Stage(services: [Self.service(limit: 2, window: .seconds(5), perSubject: true)])
        cutOff(stage)
        #expect(grantCount(1, on: stage, subject: "known") == 1)
        var refusedFor: [Int64] = []
        for number in 0..<4200 {
            let answer = stage.take("api", subject: "made-up-\(number)")
            stage.run(milliseconds: 0)
            if case .decided(let decided)? = stage.result(of: answer), let retry = decided.retryAfterMilliseconds {
                refusedFor.append(retry)
            }
        }
        #expect(refusedFor.count == 4200 - 4095)
        #expect(refusedFor.allSatisfy { $0 <= 1000 })
        #expect(grantCount(1, on: stage, subject: "known") == 1)
        // The earlier grants have lapsed.
        stage.run(milliseconds: 6000)
        #expect(grantCount(1, on: stage, subject: "real") == 1)
    }

    @Test("A subject that is only refused occupies no counter")
    func refusedTakesNoCounter() throws {
        let both = Self.service(all: 1, in: 3600, each: 5, in: 3600)
        let stage = Stage(services: [both])
        cutOff(stage)
        #expect(grantCount(1, on: stage, subject: "first") == 1)
        for number in 0..<4200 { _ = stage.result(of: stage.take("api", subject: "refused-\(number)")) }
        let raised = Self.service(all: 100, in: 3600, each: 5, in: 3600)
        stage.sidecars[0].reload([raised])
        stage.run(milliseconds: 1100)
        #expect(grantCount(1, on: stage, subject: "real") == 1)
    }

    @Test("A reload while Redis is unreachable grants no capacity twice", arguments: [0, 1])
    func reloadWhileRedisIsUnreachableGrantsNoCapacityTwice(variant: Int) throws {
        let stage = Stage(services: [Self.service(limit: 10)])
        cutOff(stage)
        #expect(grantCount(20, on: stage) == 10)
        stage.sidecars[0].reload([variant == 0 ? Self.service(limit: 10, waiting: 7) : Self.service(limit: 12)])
        stage.run(milliseconds: 1100)
        #expect(grantCount(20, on: stage) == (variant == 0 ? 0 : 2))
    }

    @Test(
        "A fleet list that is being rebuilt makes no local quota too large",
        arguments: [500, 1500, 2500, 3500, 4200, 4600] as [Int64])
    func refilled(milliseconds: Int64) throws {
        let stage = Stage(sidecars: 4, services: [Self.service(limit: 8, window: .seconds(600))])
        stage.run(milliseconds: 20_000)
        stage.redis.wipe()
        // The outage begins after some sidecars, but perhaps not all, have reported.
        stage.run(milliseconds: milliseconds)
        cutOff(stage)
        let total = (0..<4).map { grantCount(8, on: stage, through: $0) }.reduce(0, +)
        #expect(total <= 8)
    }

    @Test("With on_limit: trip, a tenant over its limit does not open the breaker for others")
    func oneTenant() throws {
        var service = Self.service(limit: 2, window: .seconds(10), perSubject: true)
        service.onLimit = LimitPolicy(action: .trip)
        let stage = Stage(sidecars: 2, services: [service])
        for _ in 0..<6 { _ = stage.result(of: stage.permit("api", subject: "greedy")) }
        stage.run(milliseconds: 100)
        #expect(stage.breaker("api")?.state == .closed)
        #expect(stage.breaker("api", at: 1)?.state == .closed)
        for number in 0..<5 { #expect(stage.result(of: stage.permit("api", subject: "t\(number)"))?.permit != nil) }
    }

    @Test("A limit that trips the breaker keeps it open until the limit has capacity again")
    func tripsForLongEnough() throws {
        var service = Self.service(limit: 1, window: .seconds(10))
        service.onLimit = LimitPolicy(action: .trip, pause: .milliseconds(100) ... .milliseconds(200))
        let stage = Stage(services: [service])
        for _ in 0..<2 { _ = stage.result(of: stage.permit("api")) }
        stage.run(milliseconds: 5000)
        #expect(stage.breaker("api")?.state == .open)
        stage.run(milliseconds: 6000)
        #expect(stage.result(of: stage.permit("api"))?.permit != nil)
    }

    @Test("Thousands of refused subjects take no position in the queue")
    func manyRefusals() throws {
        let both = Self.service(all: 10_000, in: 1, each: 1, in: 3)
        let stage = Stage(services: [both])
        for number in 0..<4200 {
            _ = stage.take("api", subject: "s\(number)")
            _ = stage.take("api", subject: "s\(number)")
        }
        stage.run(milliseconds: 50)
        #expect(stage.result(of: stage.take("api", subject: "mine"))?.isAllowed == true)
        let waiter = stage.take("api", subject: "mine", waitMilliseconds: 10_000)
        #expect(stage.result(of: waiter)?.isAllowed == true)
    }

    @Test("One tenant's waiting calls leave room in the queue for other tenants")
    func waitingTenant() throws {
        let stage = Stage(services: [Self.service(limit: 1, window: .seconds(5), perSubject: true, waiting: 8)])
        var answers: [Stage.Call<TakeResult>] = []
        for _ in 0..<20 { answers.append(stage.take("api", subject: "greedy", waitMilliseconds: 60_000)) }
        stage.run(milliseconds: 50)
        #expect(stage.result(of: stage.take("api", subject: "other"))?.isAllowed == true)
        let waiter = stage.take("api", subject: "other", waitMilliseconds: 10_000)
        #expect(stage.result(of: waiter)?.isAllowed == true)
    }

    @Test("One tenant's calls do not fill the queue for slots")
    func waitingForASlot() throws {
        var service = ServiceDefinition(name: "api", onLimit: LimitPolicy(maximumWaiting: 8))
        service.concurrency = 1
        let stage = Stage(services: [service, ServiceDefinition(name: "other")])
        #expect(stage.result(of: stage.permit("api"))?.permit != nil)
        let greedy = (0..<20).map { _ in stage.permit("api", subject: "greedy", waitMilliseconds: 60_000) }
        stage.run(milliseconds: 50)
        #expect(greedy.count { $0.result == nil } == 2)
        let others = (0..<7).map { stage.permit("api", subject: "other-\($0)", waitMilliseconds: 60_000) }
        stage.run(milliseconds: 50)
        #expect(others.count { $0.result == nil } == 6)
        #expect(stage.result(of: stage.permit("other"))?.permit != nil)
    }

    @Test("An answer comes within redis.timeout of its call, even behind a batch without an answer")
    func behindABatch() throws {
        let stage = Stage(services: [Self.service(whenDown: .deny)])
        stage.redis.stop()
        _ = stage.take("api")
        stage.run(milliseconds: 20)
        let began = stage.milliseconds
        let second = stage.take("api")
        _ = stage.result(of: second)
        #expect((second.endedAtMilliseconds ?? 60_000) - began <= 560)
    }

    @Test("Calls behind a batch without an answer are answered when a reload removes their limits")
    func unlimitedBehindABatch() throws {
        let stage = Stage(services: [Self.service(whenDown: .allow)])
        stage.redis.stop()
        _ = stage.take("api")
        stage.run(milliseconds: 20)
        let behind = stage.take("api")
        stage.sidecars[0].reload([ServiceDefinition(name: "api")])
        stage.run(milliseconds: 2000)
        guard case .failed(let error)? = behind.result else {
            return #expect(Bool(false), "\(String(describing: behind.result))")
        }
        #expect(error.code == .invalid)
    }

    @Test("A smaller burst in another sidecar, as in a rolling reload, erases no debt")
    func smallerBurst() throws {
        let stage = Stage(sidecars: 2, services: [Self.service(.gcra(burst: 9), limit: 10, window: .seconds(60))])
        stage.sidecars[1].reload([Self.service(.gcra(burst: 0), limit: 10, window: .seconds(60))])
        stage.run(milliseconds: 100)
        #expect(grantCount(10, on: stage) == 10)
        for _ in 0..<5 {
            _ = grantCount(1, on: stage, through: 1)
            stage.run(milliseconds: 1100)
            #expect(grantCount(1, on: stage) <= 1)
        }
        let remaining = try #require(Int(stage.cli("PTTL", "interlock:rate:{api}:main~gcra").dropFirst()))
        #expect(remaining > 50_000)
    }

    @Test("A refused call of high cost opens the breaker for no longer than the pause")
    func costly() throws {
        var service = Self.service(.gcra(burst: 9), limit: 10, window: .seconds(600))
        service.onLimit = LimitPolicy(action: .trip, pause: .milliseconds(100) ... .milliseconds(200))
        let stage = Stage(services: [service])
        #expect(stage.result(of: stage.take("api", cost: 5))?.isAllowed == true)
        #expect(stage.result(of: stage.take("api", cost: 9))?.isAllowed == false)
        stage.run(milliseconds: 500)
        #expect(stage.result(of: stage.permit("api"))?.permit != nil)
    }

    @Test("A call without WAIT is not delayed by a later call that waits")
    func laterWaitDelaysNoCall() throws {
        let stage = Stage(
            services: [
                ServiceDefinition(
                    name: "api", limits: [LimitDefinition(name: "main", limit: 5, window: .seconds(4), algorithm: .sliding)])
            ], redisMilliseconds: 10)
        #expect(grantCount(3, on: stage) == 3)
        // A small call and then a large waiting call arrive while a batch that will be refused is in flight.
        _ = stage.take("api", cost: 4)
        stage.run(milliseconds: 2)
        let small = stage.take("api", cost: 1)
        let large = stage.take("api", cost: 4, waitMilliseconds: 10_000)
        stage.run(milliseconds: 500)
        #expect(small.result != nil)
        _ = stage.result(of: large)
    }

    @Test("A call behind a cancelled waiter is evaluated immediately")
    func behindACanceledWaiter() throws {
        let stage = Stage(services: [Self.service(.sliding, limit: 5, window: .seconds(30))], redisMilliseconds: 10)
        #expect(grantCount(4, on: stage) == 4)
        let waiter = stage.take("api", cost: 4, waitMilliseconds: 60_000)
        stage.run(milliseconds: 100)
        let behind = stage.take("api", cost: 1, waitMilliseconds: 50_000)
        stage.run(milliseconds: 100)
        stage.cancel(waiter, of: 0)
        stage.run(milliseconds: 300)
        #expect(behind.result?.isAllowed == true)
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

/// Tests that known problems of other rate limiters do not occur.
@Suite("Known problems of other rate limiters")
struct LimitPeerIssueTests {
    private typealias Algorithms = LimitAlgorithmRedisTests

    private static let everyAlgorithm: [LimitAlgorithm] = [.fixed, .sliding, .gcra(burst: 2)]

    /// The times between which a call was granted.
    private struct Grant {
        var requested: ContinuousClock.Instant
        var answeredAt: ContinuousClock.Instant
    }

    /// Calls through all sidecars as fast as they answer. Returns the grants.
    private func hammer(_ fleet: Fleet, for duration: Duration) async throws -> [Grant] {
        let end = ContinuousClock.now + duration
        return try await withThrowingTaskGroup(of: [Grant].self) { group in
            for sidecar in fleet.sidecars {
                group.addTask {
                    var grants: [Grant] = []
                    while ContinuousClock.now < end {
                        let requested = ContinuousClock.now
                        if try await sidecar.take(service: "catalog").isAllowed {
                            grants.append(Grant(requested: requested, answeredAt: ContinuousClock.now))
                        }
                        await Task.yield()
                    }
                    return grants
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
    }

    /// Returns the largest number of grants that are known to have fallen into one window.
    private func maximumInOneWindow(_ grants: [Grant], _ window: Duration) -> Int {
        grants.map { first in
            grants.count { $0.requested >= first.requested && $0.answeredAt <= first.requested + window }
        }.max() ?? 0
    }

    @Test(
        "Around the boundary of two windows, no more calls are granted than the algorithm allows",
        arguments: [(.sliding, 5), (.gcra(burst: 2), 7), (.fixed, 10)] as [(LimitAlgorithm, Int)])
    func windowBoundaryGrantsNoExtraCalls(algorithm: LimitAlgorithm, maximum: Int) async throws {
        let window = Duration.milliseconds(250)
        let limit = LimitDefinition(name: "edge", limit: 5, window: window, algorithm: algorithm)
        try await Fleet.run(of: 2, services: [Algorithms.service(limit)]) { fleet in
            let grants = try await hammer(fleet, for: .milliseconds(1500))
            #expect(grants.count >= 5)
            #expect(maximumInOneWindow(grants, window) <= maximum)
        }
    }

    @Test("Refused calls take from none of a service's windows, even if two are equally long", arguments: everyAlgorithm)
    func refusedTakeNothing(algorithm: LimitAlgorithm) async throws {
        let narrow = LimitDefinition(name: "narrow", limit: 3, window: .seconds(3600), algorithm: algorithm)
        let wide = LimitDefinition(name: "wide", limit: 100, window: .seconds(3600))
        let each = LimitDefinition(name: "each", limit: 50, window: .seconds(3600), isPerSubject: true)
        try await Fleet.run(services: [Algorithms.service(narrow, wide, each)]) { fleet in
            for _ in 0..<20 { _ = try await fleet.sidecars[0].take(service: "catalog", subject: "ann") }
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:wide").integer == 3)
            #expect(try await fleet.cli("GET", "interlock:rate:{catalog}:each:ann").integer == 3)
        }
    }

    @Test("While Redis does not answer, each call is answered within the timeout, and the process survives")
    func answersWithoutRedis() async throws {
        try await Fleet.run(services: [Algorithms.service(Algorithms.perMinute(10, .sliding))]) { fleet in
            let sidecar = fleet.sidecars[0]
            await fleet.server.pause()
            let start = ContinuousClock.now
            #expect(try await sidecar.take(service: "catalog").isAllowed)
            // Redis's timeout in these tests is two seconds.
            #expect(ContinuousClock.now - start < .seconds(10))
            await fleet.server.resume()
            try await eventually(within: .seconds(20), "Redis receives commands again") { await sidecar.status.isRedisUp }
        }
    }

    @Test("Four hundred concurrent calls on one key need only a few Redis commands", arguments: everyAlgorithm)
    func oneKey(algorithm: LimitAlgorithm) async throws {
        let limit = LimitDefinition(name: "1h", limit: 300, window: .seconds(3600), algorithm: algorithm)
        try await Fleet.run(services: [Algorithms.service(limit)]) { fleet in
            let sidecar = fleet.sidecars[0]
            let before = await sidecar.status.redisCommandCount
            let takenCount = try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<400 { group.addTask { try await sidecar.take(service: "catalog").isAllowed } }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            if case .gcra = algorithm { #expect(takenCount >= 3) } else { #expect(takenCount == 300) }
            #expect(await sidecar.status.redisCommandCount - before < 200)
        }
    }

    @Test("A caller that returns at its retry time is granted", arguments: everyAlgorithm)
    func retryAtExactTime(algorithm: LimitAlgorithm) async throws {
        let limit = LimitDefinition(name: "short", limit: 3, window: .milliseconds(100), algorithm: algorithm)
        try await Fleet.run(services: [Algorithms.service(limit)]) { fleet in
            for _ in 0..<10 {
                let due = try await retryTime {
                    try await fleet.sidecars[0].take(service: "catalog").retryAfterMilliseconds
                }
                try await expectGranted(from: due) { try await fleet.sidecars[0].take(service: "catalog").isAllowed }
            }
        }
    }

    @Test("CL.THROTTLE never rounds its retry time down")
    func retryAtWholeSecond() async throws {
        try await Fleet.run { fleet in
            let request = try #require(
                ThrottleRequest(key: try ResourceName("mail"), maximumBurst: 0, count: 3, period: 2))
            let due = try await retryTime {
                let decision = try await fleet.sidecars[0].throttle(request)
                return decision.isLimited ? decision.retryAfterSeconds * 1000 : nil
            }
            try await expectGranted(from: due) { try await !fleet.sidecars[0].throttle(request).isLimited }
        }
    }

    /// Calls until one is refused. Returns the time at which it may be retried.
    private func retryTime(_ call: () async throws -> Int64?) async throws -> ContinuousClock.Instant {
        while true {
            if let retryAfterMilliseconds = try await call() {
                return ContinuousClock.now + .milliseconds(retryAfterMilliseconds)
            }
        }
    }

    /// Calls until one is granted, which must happen no later than the first call at or after `due`.
    private func expectGranted(from due: ContinuousClock.Instant, _ call: () async throws -> Bool) async throws {
        while true {
            let callTime = ContinuousClock.now
            if try await call() { return }
            guard callTime < due else {
                Issue.record("refused although it returned at its retry time")
                return
            }
            await Task.yield()
        }
    }

    @Test("A changed limit applies immediately despite remembered refusals", arguments: everyAlgorithm)
    func changedLimit(algorithm: LimitAlgorithm) async throws {
        func limit(_ count: Int64) -> ServiceDefinition {
            // The burst of a gcra limit determines how many calls are granted in a row.
            if case .gcra = algorithm {
                let smooth = LimitAlgorithm.gcra(burst: count - 1)
                return Algorithms.service(LimitDefinition(name: "1h", limit: 5, window: .seconds(3600), algorithm: smooth))
            }
            return Algorithms.service(LimitDefinition(name: "1h", limit: count, window: .seconds(3600), algorithm: algorithm))
        }
        try await Fleet.run(services: [limit(3)]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<4 { _ = try await sidecar.take(service: "catalog") }
            try await sidecar.reload(services: [limit(5)])
            #expect(try await sidecar.take(service: "catalog").isAllowed)
            try await sidecar.reload(services: [limit(2)])
            #expect(try await sidecar.take(service: "catalog").isAllowed == false)
        }
    }
}

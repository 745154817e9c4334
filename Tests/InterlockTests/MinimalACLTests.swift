import FoundationEssentials
import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

/// The minimal ACL that the page about Redis documents for a sidecar's user permits everything that the sidecar does.
@Suite("The minimal ACL", .timeLimit(.minutes(2)))
struct MinimalACLTests {
    /// Returns the documented command with a password filled in.
    static func documented(_ user: String = "sidecar") throws -> [String] {
        let page = try DocumentationTests.text(ofFile: "docs/operate/redis.md")
        let lines = page.split(separator: "\n").drop { !$0.hasPrefix("ACL SETUSER \(user)") }.prefix { $0 != "```" }
        return lines.joined(separator: " ").split(separator: " ").map { $0 == ">PASSWORD" ? ">secret" : String($0) }
    }

    /// Returns the additional permissions of a cluster's user.
    static func documentedForClusters() throws -> [String] {
        let page = try DocumentationTests.text(ofFile: "docs/operate/redis.md")
        return page.split(separator: "\n").first { $0.hasPrefix("+cluster|slots") }?.split(separator: " ").map { String($0) }
            ?? []
    }

    @Test("Each command of the scripts is in the list")
    func eachCommandOfScriptsIsInList() throws {
        let words = try Self.documented() + Self.documentedForClusters()
        let listed = Set(words.filter { $0.hasPrefix("+") }.map { String($0.dropFirst()) })
        let project = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
        let paths = try FileManager.default.subpathsOfDirectory(atPath: "\(project)/Sources/Interlock")
        let scripts = paths.filter { $0.hasSuffix(".lua") }
        #expect(scripts.count > 20)
        for path in scripts {
            let source = try String(
                decoding: Data(contentsOf: URL(filePath: "\(project)/Sources/Interlock/\(path)")), as: UTF8.self)
            for call in source.split(separator: "call('").dropFirst() {
                let command = call.prefix { $0 != "'" }.lowercased()
                #expect(listed.contains(command), "\(path) calls \(command)")
            }
        }
    }

    private static let services = [
        ServiceDefinition(
            name: "catalog",
            limits: [
                LimitDefinition(name: "fixed", limit: 3, window: .seconds(60)),
                LimitDefinition(name: "sliding", limit: 4, window: .seconds(60), algorithm: .sliding),
                LimitDefinition(name: "smooth", limit: 5, window: .seconds(60), algorithm: .gcra(burst: 4), isPerSubject: true),
            ]),
        ServiceDefinition(
            name: "mail", upstream: nil, breaker: breaker,
            probe: ProbeSettings(target: .tcp(host: "127.0.0.1", port: 1), interval: .seconds(60))),
    ]

    private static var breaker: BreakerSettings {
        var breaker = BreakerSettings()
        breaker.minimumCalls = 1
        breaker.openFor = .milliseconds(100)...(.milliseconds(100))
        breaker.halfOpenPermits = 1
        return breaker
    }

    @Test("Two sidecars with the minimal ACL use every feature, and Redis denies nothing")
    func minimalACLAllowsEveryFeature() async throws {
        let user = (name: "sidecar", password: "secret", command: try Self.documented())
        try await Fleet.run(of: 2, services: Self.services, user: user) { fleet in
            try await fleet.waitUntilFleetIsKnown()
            try await Self.useLocks(fleet)
            try await Self.useLimits(fleet)
            try await Self.useBreakers(fleet)
            #expect(try await fleet.cli("ACL", "LOG") == .array([]))
        }
    }

    @Test("A missing command makes limits unavailable, and services apply when_redis_is_down")
    func missingPermission() async throws {
        let command = try Self.documented().filter { $0 != "+hmget" }
        let denying = ServiceDefinition(
            name: "strict", limits: [LimitDefinition(name: "1m", limit: 5, window: .seconds(60), algorithm: .sliding)],
            whenRedisIsDown: .deny)
        var local = denying
        local.name = "lenient"
        local.whenRedisIsDown = .local
        try await Fleet.run(services: [denying, local], user: ("sidecar", "secret", command)) { fleet async throws in
            let sidecar = fleet.sidecars[0]
            let error = await #expect(throws: InterlockError.self) { try await sidecar.take(service: "strict") }
            #expect(error?.code == .unavailable)
            #expect(try await sidecar.take(service: "lenient").isAllowed)
        }
    }

    private static func useLocks(_ fleet: Fleet) async throws {
        let (first, second) = (fleet.sidecars[0], fleet.sidecars[1])
        for mode in [LockMode.exclusive, .shared, .permits(2)] {
            var request = try LockRequest("orders", ttl: 5000, wait: 10_000)
            request.mode = mode
            let heldLease = try #require(try await first.acquireLock(request))
            #expect(try await first.renewLock(request.name, token: heldLease.token, ttlMilliseconds: 6000) != nil)
            #expect(try await second.inspectLock(request.name)?.holders == 1)
            #expect(try await second.listLocks(cursor: "0", matching: "*", count: 100).names.contains("orders"))
            #expect(try await second.fleet().map(\.version) == ["unknown", "unknown"])
            var other = request
            other.mode = .exclusive
            let name = request.name
            if mode == .exclusive {
                async let waiting = second.acquireLock(other)
                #expect(try await first.releaseLock(name, token: heldLease.token))
                let next = try #require(try await waiting)
                #expect(try await second.releaseLock(name, token: next.token))
            } else {
                #expect(try await first.releaseLock(name, token: heldLease.token))
            }
        }
        let joint = JointLockRequest(names: [try ResourceName("a"), try ResourceName("b")], template: try LockRequest("a"))
        #expect(try await first.acquireLocks(joint)?.count == 2)
        #expect(try await second.breakLock(try ResourceName("a"), by: "test"))
        let name = try ResourceName("read")
        let reader = try #require(
            try await first.acquireLock(LockRequest(name: name, ttlMilliseconds: 30_000, mode: .shared)))
        #expect(try await second.breakLock(name, by: "test", fence: reader.fence))
    }

    private static func useLimits(_ fleet: Fleet) async throws {
        let sidecar = fleet.sidecars[0]
        for _ in 0..<4 { _ = try await sidecar.take(service: "catalog", subject: "alice") }
        #expect(try await sidecar.peek(service: "catalog", subject: "alice").isAllowed == false)
        // A permit that finds no free slot refunds what it took from the limits.
        _ = try await sidecar.acquirePermit(service: "catalog", subject: "bob")
        let rate = try #require(ThrottleRequest(key: try ResourceName("mail"), maximumBurst: 1, count: 1, period: 1))
        #expect(try await sidecar.throttle(rate).isLimited == false)
    }

    private static func useBreakers(_ fleet: Fleet) async throws {
        let sidecar = fleet.sidecars[0]
        func report(_ outcome: Outcome) async throws {
            guard case .granted(let id, _) = try await sidecar.acquirePermit(service: "mail") else { return }
            _ = try await sidecar.reportPermit(service: "mail", permit: id, OutcomeReport(outcome: outcome))
        }
        try await eventually("the breaker opens") {
            try await report(.error)
            return try await sidecar.breaker(service: "mail").state != .closed
        }
        try await eventually("a trial closes the breaker") {
            try await report(.ok)
            return try await sidecar.breaker(service: "mail").state == .closed
        }
        _ = try await sidecar.reportOutage(service: "mail", .down(reason: "test"))
        _ = try await sidecar.reportOutage(service: "mail", .up)
        _ = try await sidecar.forceBreaker(service: "mail", to: .open, by: "test")
        _ = try await sidecar.forceBreaker(service: "mail", to: nil, by: "test")
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOConcurrencyHelpers
import RedisClient
import Testing

@Suite("Sidecars with different configurations of a service")
struct ConfigurationDriftTests {
    private static let before = ServiceDefinition(name: "catalog")
    private static var after: ServiceDefinition {
        var changed = before
        changed.breaker.minimumCalls = 7
        return changed
    }

    private static func waitUntilDiffering(_ sidecar: Coordinator, services expected: [String]) async throws {
        try await eventually(within: .seconds(20), "the differing services are \(expected)") {
            await sidecar.status.servicesDiffering == expected
        }
    }

    @Test("Sidecars with different definitions of a service report each other until one has reloaded")
    func drift() async throws {
        let same = ServiceDefinition(name: "mail")
        try await Fleet.run(of: 2, services: [Self.before, same]) { fleet in
            let ids = fleet.sidecars.map(\.id)
            try await fleet.sidecars[0].reload(services: [Self.after, same])
            for (sidecar, other) in [(0, 1), (1, 0)] {
                try await Self.waitUntilDiffering(fleet.sidecars[sidecar], services: ["catalog"])
                let list = try await fleet.sidecars[sidecar].fleet()
                #expect(list.first { $0.id == ids[other] }?.differingServices == ["catalog"])
                #expect(list.first { $0.id == ids[sidecar] }?.differingServices == [])
            }
            try await fleet.sidecars[1].reload(services: [Self.after, same])
            for sidecar in fleet.sidecars { try await Self.waitUntilDiffering(sidecar, services: []) }
        }
    }

    @Test("Sidecars with different rules of a domain report each other until one has reloaded")
    func domains() async throws {
        func domain(limit: Int64) -> RateLimitDomain {
            let limit = LimitDefinition(name: "default", limit: limit, window: .seconds(1))
            return RateLimitDomain(name: "catalog", rules: [DescriptorRule(key: "k", limit: .rate(limit, isAligned: false))])
        }
        try await Fleet.run(of: 2, services: [Self.before]) { fleet in
            await fleet.sidecars[0].reload(domains: [domain(limit: 5)])
            await fleet.sidecars[1].reload(domains: [domain(limit: 6)])
            for sidecar in fleet.sidecars { try await Self.waitUntilDiffering(sidecar, services: ["domain:catalog"]) }
            await fleet.sidecars[1].reload(domains: [domain(limit: 5)])
            for sidecar in fleet.sidecars { try await Self.waitUntilDiffering(sidecar, services: []) }
        }
    }

    @Test("The difference ends when the other sidecar leaves")
    func otherLeaves() async throws {
        try await Fleet.run(of: 2, services: [Self.before]) { fleet in
            try await fleet.sidecars[0].reload(services: [Self.after])
            try await Self.waitUntilDiffering(fleet.sidecars[1], services: ["catalog"])
            await fleet.sidecars[0].stop()
            try await Self.waitUntilDiffering(fleet.sidecars[1], services: [])
        }
    }

    @Test("Neither a service that only one sidecar has nor a sidecar that publishes nothing counts as a difference")
    func notComparable() async throws {
        try await Fleet.run(of: 2, services: [Self.before]) { fleet in
            try await fleet.cli("ZADD", "interlock:fleet", "9999999999999", "0000000000aa")
            try await fleet.cli("HSET", "interlock:fleet:0000000000aa", "host", "old", "version", "0.1.0")
            try await fleet.sidecars[0].reload(services: [Self.before, ServiceDefinition(name: "mail")])
            try await eventually(within: .seconds(20), "the other sidecar lists the new configuration") {
                try await fleet.sidecars[1].fleet().contains {
                    $0.configurationDigest == ConfigurationDigest([Self.before, ServiceDefinition(name: "mail")]).combined
                }
            }
            // Each listing is also a heartbeat; its comparison is complete once the next listing returns.
            _ = try await fleet.sidecars[1].fleet()
            for sidecar in fleet.sidecars { #expect(await sidecar.status.servicesDiffering.isEmpty) }
        }
    }

    @Test("Digests are published again after Redis lost all data, and no difference is reported")
    func dataLoss() async throws {
        try await Fleet.run(of: 2, services: [Self.before]) { fleet in
            try await fleet.cli("FLUSHALL")
            try await eventually(within: .seconds(20), "the digest is in Redis again") {
                try await fleet.breaker("configuration") == Self.before.digest
            }
            for sidecar in fleet.sidecars { try await Self.waitUntilDiffering(sidecar, services: []) }
        }
    }

    @Test("Existing differences persist when Redis loses all data, and are not logged again")
    func dataLossWhileDifferent() async throws {
        let log = EventLog()
        try await Fleet.run(of: 2, services: [Self.before], logger: Logger(label: "test") { _ in log }) { fleet in
            try await fleet.sidecars[0].reload(services: [Self.after])
            for sidecar in fleet.sidecars { try await Self.waitUntilDiffering(sidecar, services: ["catalog"]) }
            let logged = log.events("configuration.")
            try await fleet.cli("FLUSHALL")
            let ids = Set(fleet.sidecars.map(\.id))
            for sidecar in fleet.sidecars {
                try await eventually(within: .seconds(20), "every sidecar has published its configuration again") {
                    let members = try await sidecar.fleet().filter { $0.configurationDigest != nil }
                    return Set(members.map(\.id)) == ids
                }
                // The comparison of one list is complete once the next list returns.
                _ = try await sidecar.fleet()
                #expect(await sidecar.status.servicesDiffering == ["catalog"])
            }
            #expect(log.events("configuration.") == logged)
        }
    }

    @Test("A sidecar that reloads from one difference to another is not reported as agreeing in between")
    func differentlyDifferent() async throws {
        let log = EventLog()
        var last = Self.after
        last.breaker.minimumCalls = 8
        try await Fleet.run(of: 2, services: [Self.before], logger: Logger(label: "test") { _ in log }) { fleet in
            let sidecar = fleet.sidecars[0]
            try await fleet.sidecars[1].reload(services: [Self.after])
            for sidecar in fleet.sidecars { try await Self.waitUntilDiffering(sidecar, services: ["catalog"]) }
            try await fleet.sidecars[1].reload(services: [last])
            try await eventually(within: .seconds(20), "the list has the new digest") {
                try await sidecar.fleet().contains { $0.configurationDigest == ConfigurationDigest([last]).combined }
            }
            // Two more listings complete the comparison of the last list and of the digests read for it.
            for _ in 0..<2 { _ = try await sidecar.fleet() }
            #expect(await sidecar.status.servicesDiffering == ["catalog"])
            #expect(log.events("configuration.") == ["configuration.differs", "configuration.differs"])
        }
    }

    @Test("A reload that a full Redis rejected is published again once Redis accepts it")
    func rejectedByFullRedis() async throws {
        try await Fleet.run(services: [Self.before]) { fleet in
            let sidecar = fleet.sidecars[0]
            func publishedDigest() async throws -> String? { try await sidecar.fleet().first?.configurationDigest }
            #expect(try await publishedDigest() == ConfigurationDigest([Self.before]).combined)
            try await fleet.cli("CONFIG", "SET", "maxmemory", "1")
            try await sidecar.reload(services: [Self.after])
            // The listing returns after Redis has rejected the reload's write.
            _ = try await sidecar.fleet()
            try await fleet.cli("CONFIG", "SET", "maxmemory", "0")
            #expect(try await publishedDigest() == ConfigurationDigest([Self.before]).combined)
            try await eventually(within: .seconds(20), "a later heartbeat publishes the new configuration") {
                try await publishedDigest() == ConfigurationDigest([Self.after]).combined
            }
        }
    }

    @Test("A large fleet is compared by some of its heartbeats, and every difference is found")
    func someHeartbeatsCompareLargeFleet() async throws {
        try await Fleet.run(services: [Self.before]) { fleet in
            let others = (0..<39).map { number in "0000000000" + (number < 10 ? "0\(number)" : "\(number)") }
            let (own, other) = (ConfigurationDigest([Self.before]), ConfigurationDigest([Self.after]))
            for id in others {
                let digest = id == others.last ? other : own
                try await fleet.cli("ZADD", "interlock:fleet", "9999999999999", id)
                try await fleet.cli(
                    "HSET", "interlock:fleet:\(id)", "configuration", digest.combined, "services", digest.text)
            }
            try await eventually(within: .seconds(20), "the difference is found") {
                _ = try await fleet.sidecars[0].fleet()
                return await fleet.sidecars[0].status.servicesDiffering == ["catalog"]
            }
            try await fleet.cli("CONFIG", "RESETSTAT")
            // Each listing is also a heartbeat.
            let lists = 30
            for _ in 0..<lists { _ = try await fleet.sidecars[0].fleet() }
            let statistics = try await fleet.redis.send(Info(section: "commandstats"))["cmdstat_hget"] ?? ""
            let calls = statistics.split(separator: ",").first.flatMap { $0.split(separator: "=").last.flatMap { Int($0) } }
            #expect(try #require(calls) <= lists * 40 / 2)
        }
    }
}

/// Records the IDs of the logged events.
private final class EventLog: LogHandler, Sendable {
    private let ids = NIOLockedValueBox<[String]>([])

    var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }

    subscript(metadataKey _: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }

    func log(event: LogEvent) {
        guard let id = event.metadata?["event"] else { return }
        ids.withLockedValue { $0.append("\(id)") }
    }

    func events(_ prefix: String) -> [String] {
        ids.withLockedValue { $0.filter { $0.hasPrefix(prefix) } }
    }
}

import ArgumentParser
import InterlockClient
import InterlockCommandLine
import InterlockCore

/// `interlock status`: a sidecar and its fleet at a glance.
struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show a sidecar, its Redis, its fleet, the locks and the services.",
        discussion: """
            Exits with 69 when no sidecar answers, or when it answers and its Redis is away; with --live only when no sidecar \
            answers. Restart a sidecar by --live alone: one whose Redis is away still serves local shares and breakers.

            EXAMPLES
              interlock status
              interlock status --sidecar 10.0.0.5:7379 --json
              interlock status --live
            """
    )

    @Flag(help: "Succeed when the sidecar answers, whether its Redis is there or not. Asks nothing of Redis.")
    var live = false

    @OptionGroup var sidecar: SidecarOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let reading = try await sidecar.withClient("status") {
            try await SidecarReading(from: $0, countsFleet: !live)
        }
        try Terminal.show(reading, asJSON: output.json)
        for warning in reading.warnings { Terminal.tell("interlock: warning: \(warning)") }
        guard live || reading.redis.isUp else {
            throw Failure(
                "the sidecar at \(reading.sidecar.address) cannot reach its Redis: \(reading.redis.failure)",
                .unavailable)
        }
    }
}

/// A sidecar and its fleet at a glance.
struct SidecarReading: Answer {
    /// The sidecar that was asked.
    struct Sidecar: Encodable {
        var address: String
        var id: String
        var version: String
        var host: String
        var process: Int64?
        var connections: Int64?
    }

    struct Redis: Encodable {
        /// Without credentials.
        var address: String
        /// `nil`: an older sidecar, which does not say.
        var scope: String?
        var isUp: Bool
        /// Why it is not up; empty while it is.
        var failure: String
        var version: String
        /// Empty: not known.
        var evictionPolicy: String
        /// Of a Redis behind Sentinels.
        var primary: Primary?
        /// Of a cluster.
        var cluster: Cluster?
        /// The most that a primary has; `nil`: not known.
        var replicas: Int64?
        /// How many of them have a lock before it is handed out.
        var waitReplicas: Int64?

        /// The note about a Redis that other hosts may not share.
        var notice: String? { scope.flatMap { RedisScope(rawValue: $0)?.notice } }

        private enum CodingKeys: String, CodingKey {
            case address, scope, failure, version, primary, cluster, replicas
            case waitReplicas = "wait_replicas"
            case isUp = "up"
            case evictionPolicy = "maxmemory_policy"
        }
    }

    /// The server that Sentinels name.
    struct Primary: Encodable {
        var name: String
        var address: String?
        var epoch: Int64?
        var sentinels: Int64
        var sentinelsAnswering: Int64
        var switches: Int64
        var lastSwitchMilliseconds: Int64?

        private enum CodingKeys: String, CodingKey {
            case name, address, epoch, sentinels, switches
            case sentinelsAnswering = "sentinels_answering"
            case lastSwitchMilliseconds = "last_switch_ms"
        }

        init(_ primary: SidecarStatus.Primary) {
            name = primary.name
            address = primary.address
            epoch = primary.epoch
            sentinels = primary.sentinels
            sentinelsAnswering = primary.sentinelsAnswering
            switches = primary.switches
            lastSwitchMilliseconds = primary.lastSwitch?.wholeMilliseconds
        }

        var summary: String {
            let place = address.map { "\(name) is \($0)" } ?? "\(name) is not known"
            let age = epoch.map { ", epoch \($0)" } ?? ""
            let heard = "\(sentinelsAnswering) of \(sentinels) Sentinels answer"
            guard switches > 0 else { return "\(place)\(age); \(heard)" }
            let times = switches == 1 ? "once" : "\(switches) times"
            let took = lastSwitchMilliseconds.map { ", last in \($0) ms" } ?? ""
            return "\(place)\(age); \(heard); switched \(times)\(took)"
        }
    }

    /// The servers of a cluster.
    struct Cluster: Encodable {
        struct Primary: Encodable {
            var address: String
            var slots: Int64
            var connected: Bool
        }

        var primaries: [Primary]
        var epoch: Int64?
        var slotsCovered: Int64
        var switches: Int64
        var lastSwitchMilliseconds: Int64?

        private enum CodingKeys: String, CodingKey {
            case primaries, epoch, switches
            case slotsCovered = "slots_covered"
            case lastSwitchMilliseconds = "last_switch_ms"
        }

        init(_ cluster: SidecarStatus.Cluster) {
            primaries = cluster.primaries.map { Primary(address: $0.address, slots: $0.slots, connected: $0.isConnected) }
            epoch = cluster.epoch
            slotsCovered = cluster.slotsCovered
            switches = cluster.switches
            lastSwitchMilliseconds = cluster.lastSwitch?.wholeMilliseconds
        }

        /// All of them, in a cluster that serves everything.
        static let slots: Int64 = 16_384

        var summary: String {
            guard !primaries.isEmpty else { return "no server of the cluster is known" }
            let shares = primaries.map { "\($0.address) \($0.connected ? "serves" : "is down with") \($0.slots) slots" }
            let age = epoch.map { ", epoch \($0)" } ?? ""
            let took = lastSwitchMilliseconds.map { ", last in \($0) ms" } ?? ""
            let times = switches == 0 ? "" : switches == 1 ? "; switched once\(took)" : "; switched \(switches) times\(took)"
            return shares.joined(separator: ", ") + age + times
        }
    }

    struct Locks: Encodable {
        /// Through this sidecar.
        var held: Int64
        /// Through this sidecar.
        var waiting: Int64
        /// In the whole fleet; `nil`: Redis was not, or cannot be, asked.
        var heldInFleet: Int?
        /// Whether there are more than were counted.
        var areMoreInFleet: Bool

        private enum CodingKeys: String, CodingKey {
            case held, waiting
            case heldInFleet = "held_in_fleet"
            case areMoreInFleet = "more_in_fleet"
        }
    }

    var sidecar: Sidecar
    var redis: Redis
    /// The IDs of the live sidecars.
    var fleet: [String]
    var locks: Locks
    var services: [BreakerReading]
    /// Services that another live sidecar defines differently.
    var servicesDiffering: [String]
    /// Those sidecars; none where the list of the fleet cannot be had.
    private var sidecarsDiffering: [FleetMember] = []

    private enum CodingKeys: String, CodingKey {
        case sidecar, redis, fleet, locks, services, warnings
        case servicesDiffering = "services_differing"
    }

    /// Things to look into, one sentence each.
    var warnings: [String] {
        var warnings: [String] = []
        if !redis.evictionPolicy.isEmpty, redis.evictionPolicy != Self.safeEvictionPolicy {
            warnings.append(
                "Redis may evict keys (maxmemory-policy \(redis.evictionPolicy)), and an evicted lock is a lost lock: set "
                    + "maxmemory-policy to \(Self.safeEvictionPolicy)")
        }
        if let primary = redis.primary, primary.sentinelsAnswering <= primary.sentinels / 2 {
            warnings.append(
                "\(primary.sentinelsAnswering) of \(primary.sentinels) Sentinels answer: a failover may not be noticed here")
        }
        if let wanted = redis.waitReplicas, wanted > 0, let replicas = redis.replicas, wanted < replicas {
            warnings.append(
                "locks wait for \(wanted) of \(replicas) replicas: a failover to another one loses what it has not received; "
                    + "locks.wait_replicas \(replicas) keeps every lock, while no primary has fewer")
        }
        if let cluster = redis.cluster, !cluster.primaries.isEmpty, cluster.slotsCovered < Cluster.slots {
            warnings.append(
                "\(Cluster.slots - cluster.slotsCovered) of the cluster's \(Cluster.slots) slots are served by nobody: locks, limits and "
                    + "breakers in them are unavailable")
        }
        if !servicesDiffering.isEmpty {
            warnings.append(
                "\(servicesDiffering.joined(separator: ", ")): configured differently in \(whoDiffers); compare "
                    + "`interlock config show` there and here, then reload")
        }
        return warnings
    }

    /// `9f2c41d07ab3 on web-2 (catalog, search)`, for each.
    private var whoDiffers: String {
        guard !sidecarsDiffering.isEmpty else { return "other sidecars" }
        return sidecarsDiffering.map { member in
            member.id + (member.host.map { " on \($0)" } ?? "") + " (\(member.differing.joined(separator: ", ")))"
        }.joined(separator: ", ")
    }

    private static let safeEvictionPolicy = "noeviction"

    func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(sidecar, forKey: .sidecar)
        try container.encode(redis, forKey: .redis)
        try container.encode(fleet, forKey: .fleet)
        try container.encode(locks, forKey: .locks)
        try container.encode(services, forKey: .services)
        try container.encode(servicesDiffering, forKey: .servicesDiffering)
        try container.encode(warnings, forKey: .warnings)
    }

    var table: String {
        let summary = Table([
            "Sidecar": "\(sidecar.version) at \(sidecar.address), ID \(sidecar.id), on \(sidecar.host)"
                + (sidecar.process.map { ", process \($0)" } ?? ""),
            "Redis": ([redisSummary] + [redis.notice, redis.primary?.summary, redis.cluster?.summary].compactMap(\.self)).joined(
                separator: "; "),
            "Fleet": "\(fleet.count): \(fleet.joined(separator: ", "))",
            "Locks": "\(locksInFleet); through this sidecar \(locks.held) held, \(locks.waiting) waiting",
            "Services": "\(services.count)",
        ]).text
        return services.isEmpty ? summary : summary + "\n\n" + BreakerListing(services: services).table
    }

    private var redisSummary: String {
        guard redis.isUp else { return "\(redis.address), down: \(redis.failure)" }
        let policy = redis.evictionPolicy.isEmpty ? "" : ", \(redis.evictionPolicy)"
        let replicas = redis.replicas.map { ", locks wait for \(redis.waitReplicas ?? 0) of \($0) replicas" } ?? ""
        return "\(redis.version) at \(redis.address), up\(policy)\(replicas)"
    }

    private var locksInFleet: String {
        guard let held = locks.heldInFleet else { return "not known in the fleet" }
        return locks.areMoreInFleet ? "more than \(held) held in the fleet" : "\(held) held in the fleet"
    }
}

extension SidecarReading {
    /// Asks a sidecar. While its Redis is down, what it knows by itself is all there is.
    /// - Parameter countsFleet: whether the locks of the whole fleet are counted, for which the sidecar must ask Redis.
    init(from client: SidecarClient, countsFleet: Bool) async throws {
        let address = client.configuration.address.description
        let status: SidecarStatus
        do {
            status = try await client.status()
        } catch let error as InterlockError where error.code == .unreadable {
            throw Failure("\(address) is not a sidecar: name one with --sidecar", .unavailable)
        }
        sidecar = Sidecar(
            address: address, id: status.id, version: status.version, host: status.host,
            process: status.processID.map { Int64($0) }, connections: status.connections)
        redis = Redis(
            address: status.redis.address, scope: status.redis.scope?.rawValue, isUp: status.redis.isUp,
            failure: status.redis.failure ?? "",
            version: status.redis.version ?? "", evictionPolicy: status.redis.evictionPolicy ?? "",
            primary: status.redis.primary.map { Primary($0) }, cluster: status.redis.cluster.map { Cluster($0) },
            replicas: status.redis.replicas, waitReplicas: status.redis.waitReplicas)
        servicesDiffering = status.servicesDiffering
        fleet = status.fleet
        locks = Locks(held: status.locksHeld, waiting: status.locksWaiting, heldInFleet: nil, areMoreInFleet: false)
        services = try await client.breakers.all().map { BreakerReading($0) }
        guard redis.isUp, countsFleet else { return }
        if !servicesDiffering.isEmpty { sidecarsDiffering = ((try? await client.fleet()) ?? []).filter { !$0.differing.isEmpty } }
        let (names, isComplete) = try await client.locks.names(limit: LockListing.standardLimit)
        locks.heldInFleet = names.count
        locks.areMoreInFleet = !isComplete
    }
}

import ArgumentParser
import InterlockClient
import InterlockCommandLine
import InterlockCore
import SidecarListeners

/// `interlock status`: summarizes a sidecar and its fleet.
struct Status: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Show a sidecar, its Redis, its fleet, its locks and its services.",
        usage: "interlock status [<options>]",
        discussion: """
            Exits with 69 if no sidecar answers or if its Redis is unreachable; with --live, only if no sidecar answers. Use \
            --live to decide about restarts: without Redis, a sidecar still serves local quotas and breakers.

            EXAMPLES
              interlock status
              interlock status --sidecar 10.0.0.5:7379 --json
              interlock status --live
            """
    )

    @Flag(help: "Succeed if the sidecar answers, even if its Redis is unreachable. Does not query Redis.")
    var live = false

    @OptionGroup var sidecar: SidecarOptions
    @OptionGroup var output: OutputOptions

    func run() async throws {
        let summary = try await sidecar.withClient("status") {
            try await SidecarSummary(from: $0, countsFleet: !live)
        }
        try Terminal.show(summary, asJSON: output.json)
        for warning in summary.warnings { Terminal.report("interlock: warning: \(warning)") }
        guard live || summary.status.redis.isUp else {
            throw CommandFailure(
                "the sidecar at \(summary.address) cannot reach its Redis: \(summary.status.redis.failure ?? "")",
                .unavailable)
        }
    }
}

/// A summary of a sidecar and its fleet.
struct SidecarSummary: CommandOutput {
    let address: String
    let status: SidecarStatus
    private let services: [BreakerDetails]
    /// The number of locks held in the fleet, and whether the count is complete; `nil` if Redis is down or the count
    /// was not requested.
    private var locksInFleet: (held: Int, isComplete: Bool)?
    /// The sidecars of the fleet; empty if the list failed or was not requested.
    private var members: [FleetMember] = []

    /// The sidecars that define services differently.
    private var differingSidecars: [FleetMember] { members.filter { !$0.differingServices.isEmpty } }

    /// Queries a sidecar. Without Redis, the result is limited to the sidecar's own state.
    /// - Parameter countsFleet: whether to count the locks of the whole fleet, which queries Redis.
    init(from client: SidecarClient, countsFleet: Bool) async throws {
        address = client.configuration.address.description
        do {
            status = try await client.status()
        } catch let error as InterlockError where error.code == .invalidResponse {
            throw CommandFailure("\(address) is not a sidecar: check --sidecar", .unavailable)
        }
        services = try await client.breakers.all().map { BreakerDetails($0) }
        guard status.redis.isUp, countsFleet else { return }
        // The sidecar sends one command to Redis for each member of the fleet.
        members = (try? await client.fleet()) ?? []
        // Redis may reject the listing; the warnings then say why.
        guard let (names, isComplete) = try? await client.locks.names(limit: LockListing.standardLimit) else { return }
        locksInFleet = (names.count, isComplete)
    }

    /// The problems that deserve attention, one sentence each.
    var warnings: [String] {
        var warnings: [String] = []
        let redis = status.redis
        if redis.isUp, let failure = redis.failure { warnings.append("Redis: \(failure)") }
        if let policy = redis.evictionPolicy, policy != Self.safeEvictionPolicy {
            warnings.append(
                "Redis may evict keys (maxmemory-policy \(policy)), and evicting a lock loses it: set "
                    + "maxmemory-policy to \(Self.safeEvictionPolicy)")
        }
        if let primary = redis.primary, primary.sentinelsAnswering <= primary.sentinels / 2 {
            warnings.append(
                "only \(primary.sentinelsAnswering) of \(primary.sentinels) Sentinels answer: this sidecar may miss a failover")
        }
        if let needed = redis.waitReplicas, needed > 0, let replicas = redis.replicas, needed < replicas {
            warnings.append(
                "locks wait for \(needed) of \(replicas) replicas, so a failover to another replica can lose locks; to prevent "
                    + "that, set locks.wait_replicas to \(replicas), provided that every primary has that many")
        }
        if let cluster = redis.cluster, !cluster.primaries.isEmpty, cluster.slotsCovered < SidecarStatus.Cluster.slots {
            warnings.append(
                "no server covers \(SidecarStatus.Cluster.slots - cluster.slotsCovered) of the cluster's "
                    + "\(SidecarStatus.Cluster.slots) hash slots: locks, limits and breakers in them are unavailable")
        }
        if !status.servicesDiffering.isEmpty {
            warnings.append(
                "\(status.servicesDiffering.joined(separator: ", ")): configured differently on \(differingHosts); compare "
                    + "`interlock config show` on both hosts, then reload")
        }
        return warnings
    }

    /// The hosts of the sidecars that define services differently, each as `web-2 (catalog, search)`.
    private var differingHosts: String {
        guard !differingSidecars.isEmpty else { return "other sidecars" }
        return ShortList.text(
            differingSidecars.map { "\($0.host ?? $0.id) (\($0.differingServices.joined(separator: ", ")))" })
    }

    /// The number of sidecars and the hosts that they run on, or their IDs if the hosts are unknown.
    private var fleetSummary: String {
        let hosts = Set(members.map { $0.host ?? $0.id }).sorted()
        return "\(status.fleet.count): \(ShortList.text(hosts.isEmpty ? status.fleet : hosts))"
    }

    private static let safeEvictionPolicy = "noeviction"

    func encode(to encoder: any Encoder) throws {
        let redis = status.redis
        let members: [String: JSONValue] = [
            "sidecar": .object([
                "address": .string(address), "id": .string(status.id), "version": .string(status.version),
                "host": .string(status.host), "process": JSONValue(status.processID),
                "connections": JSONValue(status.connections),
            ]),
            "redis": .object([
                "address": .string(redis.address), "scope": JSONValue(redis.scope?.rawValue), "up": .bool(redis.isUp),
                "failure": .string(redis.failure ?? ""), "version": .string(redis.version ?? ""),
                "maxmemory_policy": .string(redis.evictionPolicy ?? ""), "primary": redis.primary?.json ?? .null,
                "cluster": redis.cluster?.json ?? .null, "replicas": JSONValue(redis.replicas),
                "wait_replicas": JSONValue(redis.waitReplicas),
            ]),
            "fleet": JSONValue(status.fleet),
            "locks": .object([
                "held": .integer(status.locksHeld), "waiting": .integer(status.locksWaiting),
                "held_in_fleet": JSONValue(locksInFleet?.held),
                "more_in_fleet": .bool(locksInFleet?.isComplete == false),
            ]),
            "services": .array(services.map(\.json)),
            "services_differing": JSONValue(status.servicesDiffering),
            "warnings": JSONValue(warnings),
        ]
        try JSONValue.object(members).withoutNulls.encode(to: encoder)
    }

    var table: String {
        let redis = status.redis
        let summary = Table([
            "Sidecar": "\(status.version) at \(address), ID \(status.id), on \(status.host)"
                + (status.processID.map { ", process \($0)" } ?? ""),
            "Redis": ([redisSummary, redis.scope?.notice, redis.primary?.summary, redis.cluster?.summary].compactMap(\.self))
                .joined(separator: "; "),
            "Fleet": fleetSummary,
            "Locks": "\(lockSummary); through this sidecar \(status.locksHeld) held, \(status.locksWaiting) waiting",
            "Services": "\(services.count)",
        ]).text
        return services.isEmpty ? summary : summary + "\n\n" + BreakerListing(services: services).table
    }

    private var redisSummary: String {
        let redis = status.redis
        guard redis.isUp else { return "\(redis.address), down: \(redis.failure ?? "")" }
        let policy = redis.evictionPolicy.map { ", \($0)" } ?? ""
        let replicas = redis.replicas.map { ", locks wait for \(redis.waitReplicas ?? 0) of \($0) replicas" } ?? ""
        return "\(redis.version ?? "") at \(redis.address), up\(policy)\(replicas)"
    }

    private var lockSummary: String {
        guard let (held, isComplete) = locksInFleet else { return "unknown in the fleet" }
        return isComplete ? "\(held) held in the fleet" : "more than \(held) held in the fleet"
    }
}

extension SidecarStatus.Primary {
    fileprivate var json: JSONValue {
        .object([
            "name": .string(name), "address": JSONValue(address), "epoch": JSONValue(epoch), "sentinels": .integer(sentinels),
            "sentinels_answering": .integer(sentinelsAnswering), "switches": .integer(switches),
            "last_switch_ms": JSONValue(lastSwitchDuration?.wholeMilliseconds),
        ])
    }

    fileprivate var summary: String {
        let location = address.map { "\(name) is \($0)" } ?? "\(name) is unknown"
        let epochText = epoch.map { ", epoch \($0)" } ?? ""
        let answering = "\(sentinelsAnswering) of \(sentinels) Sentinels answer"
        guard switches > 0 else { return "\(location)\(epochText); \(answering)" }
        let times = switches == 1 ? "once" : "\(switches) times"
        let lastSwitch = lastSwitchDuration.map { ", last in \($0.wholeMilliseconds) ms" } ?? ""
        return "\(location)\(epochText); \(answering); switched \(times)\(lastSwitch)"
    }
}

extension SidecarStatus.Cluster {
    /// The number of hash slots in a cluster.
    fileprivate static let slots: Int64 = 16_384

    fileprivate var json: JSONValue {
        .object([
            "primaries": .array(
                primaries.map {
                    .object(["address": .string($0.address), "slots": .integer($0.slots), "connected": .bool($0.isConnected)])
                }),
            "epoch": JSONValue(epoch), "slots_covered": .integer(slotsCovered), "switches": .integer(switches),
            "last_switch_ms": JSONValue(lastSwitchDuration?.wholeMilliseconds),
        ])
    }

    fileprivate var summary: String {
        guard !primaries.isEmpty else { return "no server of the cluster is known" }
        let slots = primaries.map { "\($0.address) \($0.isConnected ? "serves" : "is down with") \($0.slots) hash slots" }
        let epochText = epoch.map { ", epoch \($0)" } ?? ""
        let lastSwitch = lastSwitchDuration.map { ", last in \($0.wholeMilliseconds) ms" } ?? ""
        let times =
            switch switches {
            case 0: ""
            case 1: "; switched once\(lastSwitch)"
            default: "; switched \(switches) times\(lastSwitch)"
            }
        return slots.joined(separator: ", ") + epochText + times
    }
}

/// Text for a list of sidecars that stays short in a large fleet.
enum ShortList {
    /// The maximum number of items that are shown.
    static let limit = 8

    /// Returns the first items, separated by commas, and the number of the others.
    static func text(_ items: [String]) -> String {
        let hiddenCount = items.count - limit
        let suffix = hiddenCount > 0 ? " and \(hiddenCount) more (see `interlock fleet`)" : ""
        return items.prefix(limit).joined(separator: ", ") + suffix
    }
}

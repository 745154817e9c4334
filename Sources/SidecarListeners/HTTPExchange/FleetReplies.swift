package import Interlock
package import InterlockCore

/// The fleet's Redis, as this sidecar sees it.
package enum RedisStatusReply {
    package static func members(_ status: CoordinatorStatus) -> [String: JSONValue] {
        [
            "address": .text(status.redis),
            "scope": .text(status.redisScope.rawValue),
            "up": .flag(status.isRedisUp),
            "failure": status.redisFailure.map { .text($0) } ?? .null,
            "version": status.redisVersion.map { .text($0) } ?? .null,
            "maxmemory_policy": status.evictionPolicy.map { .text($0) } ?? .null,
            "topology": .text(status.cluster != nil ? "cluster" : status.primary != nil ? "sentinel" : "single"),
            "primary": status.primary.map(primary) ?? .null,
            "cluster": status.cluster.map(cluster) ?? .null,
            "replicas": status.replicas.map { .integer(Int64($0)) } ?? .null,
            "wait_replicas": .integer(Int64(status.waitReplicas)),
        ]
    }

    private static func clusterPrimary(_ primary: ClusterStatus.Primary) -> JSONValue {
        .object([
            "address": .text(primary.address), "slots": .integer(Int64(primary.slots)), "connected": .flag(primary.isConnected),
        ])
    }

    private static func cluster(_ cluster: ClusterStatus) -> JSONValue {
        let epoch: JSONValue = cluster.epoch.map { .integer($0) } ?? .null
        let lastSwitch: JSONValue = cluster.lastSwitch.map { .integer($0.wholeMilliseconds) } ?? .null
        return .object([
            "primaries": .list(cluster.primaries.map(clusterPrimary)),
            "epoch": epoch,
            "slots_covered": .integer(Int64(cluster.slotsCovered)),
            "switches": .integer(Int64(cluster.switches)),
            "last_switch_ms": lastSwitch,
        ])
    }

    private static func primary(_ primary: PrimaryStatus) -> JSONValue {
        .object([
            "name": .text(primary.name),
            "address": primary.address.map { .text($0) } ?? .null,
            "epoch": primary.epoch.map { .integer($0) } ?? .null,
            "sentinels": .integer(Int64(primary.sentinels)),
            "sentinels_answering": .integer(Int64(primary.sentinelsAnswering)),
            "switches": .integer(Int64(primary.switches)),
            "last_switch_ms": primary.lastSwitch.map { .integer($0.wholeMilliseconds) } ?? .null,
        ])
    }
}

/// The live sidecars, under the names that `FLEET.LIST` uses.
package enum FleetReply {
    package static func members(_ sidecars: [FleetMember]) -> [String: JSONValue] { ["sidecars": .list(sidecars.map(member))] }

    private static func member(_ member: FleetMember) -> JSONValue {
        .object([
            "id": .text(member.id),
            "host": member.host.map { .text($0) } ?? .null,
            "pid": member.processID.map { .integer($0) } ?? .null,
            "version": member.version.map { .text($0) } ?? .null,
            "started_ms": member.startedMilliseconds.map { .integer($0) } ?? .null,
            "configuration": member.configuration.map { .text($0) } ?? .null,
            "differs": .list(member.differing.map { .text($0) }),
        ])
    }
}

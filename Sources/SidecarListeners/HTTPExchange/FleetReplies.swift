package import Interlock
package import InterlockCore

/// The state of the fleet's Redis database, from this sidecar's view, as JSON.
package enum RedisStatusReply {
    package static func fields(_ status: CoordinatorStatus) -> [String: JSONValue] {
        [
            "address": .string(status.redis),
            "scope": .string(status.redisScope.rawValue),
            "up": .bool(status.isRedisUp),
            "failure": status.redisFailure.map { .string($0) } ?? .null,
            "version": status.redisVersion.map { .string($0) } ?? .null,
            "maxmemory_policy": status.evictionPolicy.map { .string($0) } ?? .null,
            "topology": .string(status.cluster != nil ? "cluster" : status.primary != nil ? "sentinel" : "single"),
            "primary": status.primary.map(primary) ?? .null,
            "cluster": status.cluster.map(cluster) ?? .null,
            "replicas": status.replicaCount.map { .integer(Int64($0)) } ?? .null,
            "wait_replicas": .integer(Int64(status.waitReplicas)),
        ]
    }

    private static func clusterPrimary(_ primary: ClusterStatus.Primary) -> JSONValue {
        .object([
            "address": .string(primary.address), "slots": .integer(Int64(primary.slotCount)),
            "connected": .bool(primary.isConnected),
        ])
    }

    private static func cluster(_ cluster: ClusterStatus) -> JSONValue {
        let epoch: JSONValue = cluster.epoch.map { .integer($0) } ?? .null
        let lastSwitchDuration: JSONValue = cluster.lastSwitchDuration.map { .integer($0.wholeMilliseconds) } ?? .null
        return .object([
            "primaries": .array(cluster.primaries.map(clusterPrimary)),
            "epoch": epoch,
            "slots_covered": .integer(Int64(cluster.coveredSlotCount)),
            "switches": .integer(Int64(cluster.switchCount)),
            "last_switch_ms": lastSwitchDuration,
        ])
    }

    private static func primary(_ primary: PrimaryStatus) -> JSONValue {
        .object([
            "name": .string(primary.name),
            "address": primary.address.map { .string($0) } ?? .null,
            "epoch": primary.epoch.map { .integer($0) } ?? .null,
            "sentinels": .integer(Int64(primary.sentinelCount)),
            "sentinels_answering": .integer(Int64(primary.answeringSentinelCount)),
            "switches": .integer(Int64(primary.switchCount)),
            "last_switch_ms": primary.lastSwitchDuration.map { .integer($0.wholeMilliseconds) } ?? .null,
        ])
    }
}

/// The live sidecars as JSON, with the names that `FLEET.LIST` uses.
package enum FleetReply {
    package static func fields(_ sidecars: [FleetMember]) -> [String: JSONValue] { ["sidecars": .array(sidecars.map(member))] }

    private static func member(_ member: FleetMember) -> JSONValue {
        .object([
            "id": .string(member.id),
            "host": member.host.map { .string($0) } ?? .null,
            "pid": member.processID.map { .integer($0) } ?? .null,
            "version": member.version.map { .string($0) } ?? .null,
            "started_ms": member.startedMilliseconds.map { .integer($0) } ?? .null,
            "configuration": member.configurationDigest.map { .string($0) } ?? .null,
            "differs": .array(member.differingServices.map { .string($0) }),
        ])
    }
}

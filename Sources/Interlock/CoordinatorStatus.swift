internal import Hiredis
package import InterlockCore

/// A sidecar at a glance.
package struct CoordinatorStatus: Sendable {
    /// Its ID in the fleet.
    package var id: String
    package var host: String
    package var version: String
    /// Which Redis, without credentials.
    package var redis: String
    /// The hosts that can share the Redis.
    package var redisScope: RedisScope
    package var isRedisUp: Bool
    /// Why Redis is not up, or what it has refused in the last ten seconds (at `maxmemory`, by its ACL); `nil`: neither.
    package var redisFailure: String?
    /// Of a Redis behind Sentinels; `nil`: it is at one address.
    package var primary: PrimaryStatus?
    /// Of a cluster; `nil`: Redis is none.
    package var cluster: ClusterStatus?
    /// The most replicas that a primary has; `nil`: not known, as of a Redis at one address.
    package var replicas: Int?
    /// `locks.wait_replicas`.
    package var waitReplicas: Int
    package var redisVersion: String?
    /// Anything but `noeviction` can lose locks.
    package var evictionPolicy: String?
    /// The live sidecars' IDs when Redis was last heard of.
    package var fleet: [String]
    package var locksHeld: Int
    package var locksWaiting: Int
    /// `locks.max_wait` in milliseconds: what is asked for beyond it is cut.
    package var longestWait: Int64
    package var services: Int
    /// Those that another live sidecar defines differently.
    package var servicesDiffering: [String]
    package var permitsUnderWay: Int
    /// Calls that wait for a place, or through a pause that a limit made.
    package var permitsWaiting: Int
    package var redisCommands: Int64
}

/// What a cluster looks like from this sidecar.
package struct ClusterStatus: Hashable, Sendable {
    /// A server that serves slots.
    package struct Primary: Hashable, Sendable {
        /// `host:port`.
        package var address: String
        package var slots: Int
        package var isConnected: Bool
    }

    /// By how they are named first; none: no server has answered yet.
    package var primaries: [Primary]
    /// Of the last change that is known of; `nil`: no server has answered yet.
    package var epoch: Int64?
    /// How many of the 16,384 slots are served by somebody.
    package var slotsCovered: Int
    /// How often a primary left its slots to others since this sidecar started.
    package var switches: Int
    /// How long the last switch took, from the news to the moment at which every connection was there; `nil`: there was none.
    package var lastSwitch: Duration?

    init(_ directory: ClusterDirectory, connections: [RedisPipeline]) {
        let map = directory.view
        primaries = zip(map.primaries, map.shares).map { address, slots in
            Primary(
                address: "\(address)", slots: slots,
                isConnected: connections.first { $0.address == address }?.isUp ?? false)
        }
        epoch = directory.view.isKnown ? directory.view.epoch : nil
        slotsCovered = map.covered
        switches = directory.switches
        lastSwitch = directory.lastSwitch
    }
}

/// Which server Sentinels name.
package struct PrimaryStatus: Hashable, Sendable {
    /// What they call it.
    package var name: String
    /// `host:port`; `nil`: too few of them have answered.
    package var address: String?
    /// Of the failover that made it the primary; higher each time.
    package var epoch: Int64?
    package var sentinels: Int
    /// How many Sentinels are heard.
    package var sentinelsAnswering: Int
    /// How often it was another one since this sidecar started.
    package var switches: Int
    /// How long the last switch took, from the news to the moment at which every connection was there; `nil`: there was none.
    package var lastSwitch: Duration?

    init(_ directory: PrimaryDirectory) {
        name = directory.name
        address = directory.primary.map { "\($0.address)" }
        epoch = directory.primary?.epoch
        sentinels = directory.sentinelCount
        sentinelsAnswering = directory.answering
        switches = directory.switches
        lastSwitch = directory.lastSwitch
    }
}

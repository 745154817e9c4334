package import InterlockCore
package import RedisClient

/// What a sidecar says of itself, its Redis and its fleet.
public struct SidecarStatus: Hashable, Sendable {
    /// The sidecar's connection to Redis.
    public struct Redis: Hashable, Sendable {
        /// Without credentials.
        public var address: String
        /// Which hosts can share it; `nil`: an older sidecar, which does not say.
        package var scope: RedisScope?
        /// Whether the connection stands.
        public var isUp: Bool
        /// Why it is not up; `nil` while it is.
        public var failure: String?
        /// Redis' version; `nil`: not known.
        public var version: String?
        /// Redis' `maxmemory-policy`; `nil`: not known.
        public var evictionPolicy: String?
        /// How many commands the sidecar has sent to Redis since it started.
        public var commandsSent: Int64?
        /// Of a Redis behind Sentinels; `nil`: it is at one address.
        public var primary: Primary?
        /// Of a cluster; `nil`: Redis is none.
        public var cluster: Cluster?
        /// The most replicas that a primary has; `nil`: not known, as of a Redis at one address.
        public var replicas: Int64?
        /// How many of them have a lock before it is handed out: `locks.wait_replicas`. With fewer than there are, a failover may lose
        /// a lock. `nil`: an older sidecar, which does not say.
        public var waitReplicas: Int64?
    }

    /// A Redis Cluster, as the sidecar sees it.
    public struct Cluster: Hashable, Sendable {
        /// The servers that serve slots.
        public var primaries: [ClusterPrimary]
        /// Of the last change that is known of; `nil`: no server has answered yet.
        public var epoch: Int64?
        /// How many of the 16,384 slots are served by somebody.
        public var slotsCovered: Int64
        /// How often a primary left its slots to others since the sidecar started.
        public var switches: Int64
        /// How long the last switch took, from the news to the moment at which every connection was there; `nil`: there was none.
        public var lastSwitch: Duration?
    }

    /// A server of a cluster.
    public struct ClusterPrimary: Hashable, Sendable {
        /// `host:port`.
        public var address: String
        /// How many slots it serves.
        public var slots: Int64
        /// Whether the sidecar is connected to it.
        public var isConnected: Bool
    }

    /// The server that Sentinels name.
    public struct Primary: Hashable, Sendable {
        /// What they call it.
        public var name: String
        /// `host:port`; `nil`: too few of them have answered.
        public var address: String?
        /// Of the failover that made it the primary; higher each time.
        public var epoch: Int64?
        /// How many Sentinels the sidecar asks.
        public var sentinels: Int64
        /// How many of them it hears.
        public var sentinelsAnswering: Int64
        /// How often it was another one since the sidecar started.
        public var switches: Int64
        /// How long the last switch took, from the news to the moment at which every connection was there; `nil`: there was none.
        public var lastSwitch: Duration?
    }

    /// The version of the sidecar.
    public var version: String
    /// The sidecar's ID, new with each start.
    public var id: String
    /// The name of its host.
    public var host: String
    /// Of its process on its host.
    public var processID: Int32?
    /// How many clients are connected to the RESP door, this one among them.
    public var connections: Int64?
    /// The Redis that it uses.
    public var redis: Redis
    /// The IDs of the live sidecars.
    public var fleet: [String]
    /// Locks that are held through this sidecar.
    public var locksHeld: Int64
    /// Callers that wait for a lock through this sidecar.
    public var locksWaiting: Int64
    /// The longest wait that the sidecar allows, for locks, limits and permits: `locks.max_wait`. A longer one that is asked for is
    /// cut to it. `nil`: an older sidecar, which does not say.
    public var maximumWait: Duration?
    /// Those that another live sidecar defines differently; of a sidecar of 0.1.0: whose configuration is not the last one published.
    public var servicesDiffering: [String]
    /// What to subscribe to for the fleet's events; `nil`: an older sidecar, which does not say.
    public var eventChannel: String?

    /// `nil` when the report is no sidecar's.
    fileprivate init?(_ report: [String: String]) {
        func text(_ name: String) -> String? { report[name].flatMap { $0.isEmpty ? nil : $0 } }
        func number(_ name: String) -> Int64? { report[name].flatMap { Int64($0) } }
        func list(_ name: String) -> [String] { report[name].map { $0.split(separator: ",").map { String($0) } } ?? [] }
        guard let version = text("interlock_version"), let isUp = number("redis_up") else { return nil }
        self.version = version
        id = report["id"] ?? ""
        host = report["host"] ?? ""
        processID = number("process_id").flatMap { Int32(exactly: $0) }
        connections = number("connected_clients")
        redis = Redis(
            address: report["redis"] ?? "", scope: text("redis_scope").flatMap { RedisScope(rawValue: $0) }, isUp: isUp == 1,
            failure: text("redis_failure"), version: text("redis_version"),
            evictionPolicy: text("maxmemory_policy"), commandsSent: number("redis_commands"),
            primary: text("redis_primary_name").map { name in
                Primary(
                    name: name, address: text("redis_primary"), epoch: number("redis_epoch"),
                    sentinels: number("redis_sentinels") ?? 0, sentinelsAnswering: number("redis_sentinels_answering") ?? 0,
                    switches: number("redis_switches") ?? 0,
                    lastSwitch: number("redis_last_switch_ms").map { .milliseconds($0) })
            }, replicas: number("redis_replicas"), waitReplicas: number("wait_replicas"))
        fleet = list("members")
        locksHeld = number("locks_held") ?? 0
        locksWaiting = number("locks_waiting") ?? 0
        maximumWait = number("max_wait_ms").map { .milliseconds($0) }
        servicesDiffering = list("services_differing")
        eventChannel = text("event_channel")
        guard report["redis_topology"] == "cluster" else { return }
        let down = list("redis_primaries_down")
        redis.cluster = Cluster(
            primaries: list("redis_primaries").compactMap { entry in
                guard let mark = entry.lastIndex(of: "="), let slots = Int64(entry[entry.index(after: mark)...]) else {
                    return nil
                }
                let address = String(entry[..<mark])
                return ClusterPrimary(address: address, slots: slots, isConnected: !down.contains(address))
            },
            epoch: number("redis_epoch"), slotsCovered: number("redis_slots_covered") ?? 0,
            switches: number("redis_switches") ?? 0, lastSwitch: number("redis_last_switch_ms").map { .milliseconds($0) })
    }
}

/// The commands about the sidecar and the connection.
package enum StatusCalls {
    /// `INFO`.
    package struct Report: SidecarCall {
        package init() {}

        package func encode(into encoder: inout CommandEncoder) {
            encoder.append("INFO")
        }

        package func decode(_ reply: RedisReply) throws(RedisError) -> SidecarStatus {
            var fields: [String: String] = [:]
            for line in (reply.text ?? "").split(separator: "\r\n") {
                guard let colon = line.firstIndex(of: ":") else { continue }
                fields[String(line[..<colon])] = String(line[line.index(after: colon)...])
            }
            guard let status = SidecarStatus(fields) else { throw reply.unexpected(for: "INFO") }
            return status
        }
    }

    /// `PING`, whatever the answer is: a sign of life.
    struct Ping: SidecarCall {
        func encode(into encoder: inout CommandEncoder) {
            encoder.append("PING")
        }

        func decode(_ reply: RedisReply) throws(RedisError) {}
    }
}

/// The commands `LIVE.*`.
enum ViewCalls {
    /// `LIVE.VIEW`.
    struct Look: SidecarCall {
        /// The view, and its options.
        var words: [String]

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LIVE.VIEW")
            for word in words { encoder.append(word) }
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> String {
            guard let text = reply.text else { throw reply.unexpected(for: "LIVE.VIEW") }
            return text
        }
    }
}

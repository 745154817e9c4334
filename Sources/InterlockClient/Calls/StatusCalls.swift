package import InterlockCore
package import RedisClient

/// The status of a sidecar, its Redis and its fleet.
public struct SidecarStatus: Hashable, Sendable {
    /// The sidecar's connection to Redis.
    public struct Redis: Hashable, Sendable {
        /// The address, without credentials.
        public var address: String
        /// The hosts that can share this Redis; `nil` if an older sidecar does not report it.
        package var scope: RedisScope?
        /// Whether the sidecar is connected to Redis.
        public var isUp: Bool
        /// The reason why the connection is down, or what fails while it is up, such as a primary of a cluster, or the
        /// commands that Redis rejected in the last ten seconds; `nil` if nothing is known to fail.
        public var failure: String?
        /// The version of Redis; `nil` if unknown.
        public var version: String?
        /// The `maxmemory-policy` of Redis; `nil` if unknown.
        public var evictionPolicy: String?
        /// The number of commands that the sidecar has sent to Redis since it started; `nil` if unknown.
        public var commandsSent: Int64?
        /// The primary that Sentinels monitor; `nil` if Redis is not behind Sentinels.
        public var primary: Primary?
        /// The cluster; `nil` if Redis is not a cluster.
        public var cluster: Cluster?
        /// The largest number of replicas of any primary; `nil` if unknown, as with a Redis at a fixed address.
        public var replicas: Int64?
        /// The number of replicas that must have a lock before it is granted: `locks.wait_replicas`. If it is lower
        /// than `replicas`, a failover may lose a lock. `nil` if an older sidecar does not report it.
        public var waitReplicas: Int64?
    }

    /// A Redis Cluster as the sidecar sees it.
    public struct Cluster: Hashable, Sendable {
        /// The servers that serve hash slots.
        public var primaries: [ClusterPrimary]
        /// The configuration epoch of the last known change; `nil` if no server has answered yet.
        public var epoch: Int64?
        /// The number of hash slots, out of 16,384, that a server serves.
        public var slotsCovered: Int64
        /// The number of times a primary has handed hash slots to other servers since the sidecar started.
        public var switches: Int64
        /// The duration of the last switch, from its notification until every connection was re-established; `nil` if
        /// there was no switch.
        public var lastSwitchDuration: Duration?
    }

    /// A primary of a cluster.
    public struct ClusterPrimary: Hashable, Sendable {
        /// The address, as `host:port`.
        public var address: String
        /// The number of hash slots that the server serves.
        public var slots: Int64
        /// Whether the sidecar is connected to the server.
        public var isConnected: Bool
    }

    /// The primary that Sentinels report.
    public struct Primary: Hashable, Sendable {
        /// The name under which Sentinels monitor the primary.
        public var name: String
        /// The address, as `host:port`; `nil` if too few Sentinels have answered.
        public var address: String?
        /// The epoch of the failover that promoted this primary. It grows with each failover.
        public var epoch: Int64?
        /// The number of Sentinels that the sidecar queries.
        public var sentinels: Int64
        /// The number of Sentinels that answer.
        public var sentinelsAnswering: Int64
        /// The number of times the primary has changed since the sidecar started.
        public var switches: Int64
        /// The duration of the last switch, from its notification until every connection was re-established; `nil` if
        /// there was no switch.
        public var lastSwitchDuration: Duration?
    }

    /// The version of the sidecar.
    public var version: String
    /// The sidecar's ID, new with each start.
    public var id: String
    /// The name of the sidecar's host.
    public var host: String
    /// The process ID of the sidecar on its host; `nil` if an older sidecar does not report it.
    public var processID: Int32?
    /// The number of clients connected to the RESP API, including this one; `nil` if an older sidecar does not report
    /// it.
    public var connections: Int64?
    /// The sidecar's Redis.
    public var redis: Redis
    /// The IDs of the live sidecars.
    public var fleet: [String]
    /// The number of locks held through this sidecar.
    public var locksHeld: Int64
    /// The number of callers that wait for a lock through this sidecar.
    public var locksWaiting: Int64
    /// The maximum wait that the sidecar allows for locks, limits and permits: `locks.max_wait`. A longer requested
    /// wait is shortened to this value. `nil` if an older sidecar does not report it.
    public var maximumWait: Duration?
    /// The services that another live sidecar defines differently. A sidecar of version 0.1.0 lists the services whose
    /// configuration differs from the last one published.
    public var servicesDiffering: [String]
    /// The channel that carries the fleet's events; `nil` if an older sidecar does not report it.
    public var eventChannel: String?

    /// Decodes the fields of a report. Returns `nil` if the report is not a sidecar's.
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
                    lastSwitchDuration: number("redis_last_switch_ms").map { .milliseconds($0) })
            }, replicas: number("redis_replicas"), waitReplicas: number("wait_replicas"))
        fleet = list("members")
        locksHeld = number("locks_held") ?? 0
        locksWaiting = number("locks_waiting") ?? 0
        maximumWait = number("max_wait_ms").map { .milliseconds($0) }
        servicesDiffering = list("services_differing")
        eventChannel = text("event_channel")
        guard report["redis_topology"] == "cluster" else { return }
        let downAddresses = list("redis_primaries_down")
        redis.cluster = Cluster(
            primaries: list("redis_primaries").compactMap { ClusterPrimary($0, downAddresses: downAddresses) },
            epoch: number("redis_epoch"), slotsCovered: number("redis_slots_covered") ?? 0,
            switches: number("redis_switches") ?? 0, lastSwitchDuration: number("redis_last_switch_ms").map { .milliseconds($0) })
    }
}

extension SidecarStatus.ClusterPrimary {
    /// Reads `host:port=slots`. Returns `nil` if the text has another form.
    fileprivate init?(_ text: String, downAddresses: [String]) {
        guard let equalsSign = text.lastIndex(of: "="), let slots = Int64(text[text.index(after: equalsSign)...]) else {
            return nil
        }
        let address = String(text[..<equalsSign])
        self.init(address: address, slots: slots, isConnected: !downAddresses.contains(address))
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

    /// `PING`: a liveness check that accepts any answer.
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
    struct View: SidecarCall {
        /// The view and its options.
        var arguments: [String]

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LIVE.VIEW")
            for word in arguments { encoder.append(word) }
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> String {
            guard let json = reply.text else { throw reply.unexpected(for: "LIVE.VIEW") }
            return json
        }
    }
}

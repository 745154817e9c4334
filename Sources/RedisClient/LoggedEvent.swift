package import Logging

/// An event in the log. Its ID, level and message are constants, listed in docs/operate/logs.md; the variable parts are
/// fields.
package protocol LoggedEvent: CaseIterable, RawRepresentable<String>, Sendable {
    /// The log level of the event and its human-readable message.
    var line: (level: Logger.Level, message: String) { get }
}

extension Logger {
    /// The metadata key of the event's ID.
    package static let eventKey = "event"

    /// Writes one line. `fields` is evaluated only if the line's level is enabled.
    package func write(_ event: some LoggedEvent, _ fields: () -> [String: String]) {
        let (level, message) = event.line
        guard level >= logLevel else { return }
        var metadata = fields().mapValues { MetadataValue.string($0) }
        metadata[Self.eventKey] = .string(event.rawValue)
        // The source is the module that declares the event.
        let module = String(reflecting: type(of: event)).prefix { $0 != "." }
        log(level: level, "\(message)", metadata: metadata, source: String(module))
    }
}

/// The log events of the connections to Redis.
package enum RedisLogEvent: String, LoggedEvent {
    case refused = "redis.refused"
    case retried = "redis.retried"
    case moved = "redis.moved"
    case severalServers = "redis.several_servers"
    case primaryFound = "redis.primary"
    case switched = "redis.switched"
    case formerPrimary = "redis.former_primary"
    case clusterFound = "redis.cluster_found"
    case clusterSwitched = "redis.cluster_switched"

    package var line: (level: Logger.Level, message: String) {
        switch self {
        case .refused: (.error, "Redis rejected a command")
        case .retried: (.debug, "Redis connection failed; retrying")
        case .moved: (.notice, "A connection to Redis reached a different or demoted server; reconnecting the others")
        case .severalServers:
            (.error, "The Redis address leads to several servers; use that of one primary, of Sentinels or of a cluster")
        case .primaryFound: (.info, "Sentinels reported the primary")
        case .switched: (.notice, "Sentinels reported a new primary; all connections use it now")
        case .formerPrimary: (.warning, "A Sentinel reported a different primary without a newer epoch; ignoring it")
        case .clusterFound: (.info, "Discovered the servers of the cluster")
        case .clusterSwitched: (.notice, "Hash slots moved to other servers of the cluster; all connections use them now")
        }
    }
}

extension Logger {
    /// Writes one line; see `write`.
    package func log(_ event: RedisLogEvent, _ fields: @autoclosure () -> [String: String] = [:]) { write(event, fields) }
}

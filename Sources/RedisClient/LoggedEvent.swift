package import Logging

/// Something that is logged. Its ID, level and message are constants, and docs/operate/logs.md lists them; what varies stands beside
/// them in fields.
package protocol LoggedEvent: CaseIterable, RawRepresentable<String>, Sendable {
    /// The least log level that shows it, and the message for people.
    var line: (level: Logger.Level, message: String) { get }
}

extension Logger {
    /// What the ID stands under in a line's metadata.
    package static let eventKey = "event"

    /// Writes one line. `fields` are put together only where the line is wanted.
    package func write(_ event: some LoggedEvent, _ fields: () -> [String: String]) {
        let (level, message) = event.line
        guard level >= logLevel else { return }
        var metadata = fields().mapValues { MetadataValue.string($0) }
        metadata[Self.eventKey] = .string(event.rawValue)
        // The module that declares the event, not this one.
        let module = String(reflecting: type(of: event)).prefix { $0 != "." }
        log(level: level, "\(message)", metadata: metadata, source: String(module))
    }
}

/// What a connection to Redis logs.
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
        case .refused: (.error, "Redis refuses what it is asked")
        case .retried: (.debug, "The connection to Redis is down; it will be tried again")
        case .moved: (.notice, "One connection to Redis found another server, or a demoted one; the others leave it too")
        case .severalServers:
            (.error, "The address of Redis leads to several servers in turn: name one primary, or Sentinels, or a cluster")
        case .primaryFound: (.info, "Sentinels name the primary")
        case .switched: (.notice, "Sentinels name another primary; all connections are there now")
        case .formerPrimary: (.warning, "A Sentinel names a former primary, of an older epoch; it is not followed")
        case .clusterFound: (.info, "The cluster tells which servers it has")
        case .clusterSwitched: (.notice, "A server of the cluster has left its slots to others; all connections are there now")
        }
    }
}

extension Logger {
    /// Writes one line; see `write`.
    package func log(_ event: RedisLogEvent, _ fields: @autoclosure () -> [String: String] = [:]) { write(event, fields) }
}

package import Logging
internal import RedisClient

/// The events that a sidecar logs in addition to those of its coordinator.
package enum SidecarLogEvent: String, LoggedEvent {
    case started = "sidecar.started"
    case stopped = "sidecar.stopped"
    case failed = "sidecar.failed"
    case listenerOpened = "door.opened"
    case openFiles = "process.open_files"
    case logDropped = "log.dropped"
    case noDescriptors = "process.no_descriptors"
    case configurationDoubtful = "configuration.doubtful"
    case configurationRefused = "configuration.refused"
    case restartNeeded = "configuration.restart_needed"
    case configurationRemoved = "configuration.removed"
    case keyUnknown = "client.unknown_key"
    case handshakeFailed = "client.handshake_failed"
    case httpAtRESP = "client.http_at_resp"
    case clientStalled = "client.stalled"
    case leaseLost = "client.lease_lost"
    case probeImpossible = "probe.impossible"
    case probeElected = "probe.elected"
    case probeUnelected = "probe.unelected"
    case electionFailed = "probe.election_failed"
    case probeDoubted = "probe.doubted"
    case probeBad = "probe.bad"
    case probeStillBad = "probe.still_bad"
    case probeGood = "probe.good"
    case probeUnjudged = "probe.unjudged"
    case probeReported = "probe.reported"
    case probeUnreported = "probe.unreported"
    case upstreamFailed = "upstream.failed"
    case httpAnswered = "http.answered"
    case httpRefused = "http.refused"
    case managerUnreachable = "manager.unreachable"
    case spansNotSent = "tracing.not_sent"
    case domainUnknown = "domain.unknown"

    package var line: (level: Logger.Level, message: String) {
        switch self {
        case .started: (.info, "The sidecar starts")
        case .stopped: (.info, "The sidecar has stopped")
        case .failed: (.error, "The sidecar has stopped: it cannot run")
        case .listenerOpened: (.info, "A door is open")
        case .openFiles:
            (
                .warning,
                "Fewer files may be open than listen.max_connections wants at all doors: connections beyond will wait "
                    + "unanswered. Raise the bound (ulimit -Hn), or lower listen.max_connections"
            )
        case .logDropped: (.warning, "Lines of the log were dropped: standard error was not read")
        case .noDescriptors:
            (
                .warning,
                "The file descriptors are used up: new connections are closed, and only health and metrics are answered. Raise the limit (ulimit -n), "
                    + "or lower listen.max_connections"
            )
        case .configurationDoubtful: (.warning, "The configuration is accepted, and something in it may be a mistake")
        case .configurationRefused: (.error, "The configuration was not reloaded; the old one stays")
        case .restartNeeded: (.warning, "The configuration was reloaded, but for what takes a new start of the sidecar")
        case .configurationRemoved:
            (.notice, "The reload removed something: its callers are refused, its limits and breakers are gone")
        case .handshakeFailed: (.warning, "A TLS handshake failed")
        case .keyUnknown: (.warning, "An API key was shown that is none")
        case .httpAtRESP: (.warning, "An HTTP request came to the RESP door; the connection was closed")
        case .clientStalled: (.info, "A client does not read its replies; it was dropped")
        case .leaseLost: (.info, "A linked lease was lost; its RESP2 connection is closed")
        case .probeImpossible: (.error, "The service cannot be probed")
        case .probeElected: (.info, "This sidecar probes the service")
        case .probeUnelected: (.warning, "Nobody can be elected to probe the service: this sidecar does, for itself")
        case .electionFailed: (.debug, "Nobody can be elected to probe the service")
        case .probeDoubted: (.notice, "The probes are bad: another sidecar is to confirm it")
        case .probeBad: (.warning, "A probe was bad")
        case .probeStillBad: (.debug, "A probe was bad again")
        case .probeGood: (.notice, "The service is good again at its probes")
        case .probeUnjudged: (.warning, "A probe could not be judged")
        case .probeReported: (.debug, "The breaker was told")
        case .probeUnreported: (.warning, "The breaker could not be told what the probes found: it will be")
        case .upstreamFailed: (.debug, "A call to an upstream failed")
        case .httpAnswered: (.debug, "Answered a request")
        case .httpRefused: (.debug, "Refused a request")
        case .managerUnreachable: (.warning, "The service manager cannot be notified")
        case .spansNotSent: (.warning, "The collector did not take these spans; they are dropped")
        case .domainUnknown: (.warning, "A domain that is not configured was asked for: nothing limits it")
        }
    }
}

extension Logger {
    /// Writes one line; see `write`.
    package func log(_ event: SidecarLogEvent, _ fields: @autoclosure () -> [String: String] = [:]) { write(event, fields) }
}

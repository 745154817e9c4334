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
    case configurationWarning = "configuration.doubtful"
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
    case outageSuspected = "probe.doubted"
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
        case .started: (.info, "Sidecar starting")
        case .stopped: (.info, "Sidecar stopped")
        case .failed: (.error, "Sidecar failed")
        case .listenerOpened: (.info, "Listening")
        case .openFiles:
            // Logged at the start, before any client can be affected; `noDescriptors` is the warning.
            (
                .info,
                "The open-file limit is too low for listen.max_connections; connections beyond it will be closed; "
                    + "raise `ulimit -Hn` or lower listen.max_connections"
            )
        case .logDropped: (.warning, "Log lines were dropped because standard error was blocked")
        case .noDescriptors:
            (
                .warning,
                "Out of file descriptors; new connections are closed, except for health checks and metrics. "
                    + "Raise `ulimit -n` or lower listen.max_connections"
            )
        case .configurationWarning: (.warning, "The configuration may contain a mistake")
        case .configurationRefused: (.error, "Configuration reload failed; the old configuration stays in effect")
        case .restartNeeded: (.warning, "Configuration reloaded; some settings need a restart")
        case .configurationRemoved:
            (.notice, "The reload removed keys, services or domains, with their limits and breakers")
        case .handshakeFailed: (.warning, "TLS handshake failed")
        case .keyUnknown: (.warning, "Invalid API key")
        case .httpAtRESP: (.warning, "Received an HTTP request on the RESP port; closed the connection")
        case .clientStalled: (.info, "Disconnected a client that does not read its replies")
        case .leaseLost: (.info, "A linked lease was lost; its RESP2 connection is closed")
        case .probeImpossible: (.error, "The service cannot be probed")
        case .probeElected: (.info, "This sidecar now probes the service")
        case .probeUnelected: (.warning, "Prober election failed; this sidecar probes the service for itself")
        case .electionFailed: (.debug, "Prober election failed")
        case .outageSuspected: (.notice, "Probes are failing; waiting for another sidecar to confirm")
        case .probeBad: (.warning, "Probe failed")
        case .probeStillBad: (.debug, "Probe failed again")
        case .probeGood: (.notice, "Probes are succeeding again")
        case .probeUnjudged: (.warning, "Probe was inconclusive")
        case .probeReported: (.debug, "Reported the probe result to the breaker")
        case .probeUnreported: (.warning, "Could not report the probe result to the breaker; retrying")
        case .upstreamFailed: (.debug, "Upstream call failed")
        case .httpAnswered: (.debug, "Answered a request")
        case .httpRefused: (.debug, "Rejected a request")
        case .managerUnreachable: (.warning, "Cannot notify the service manager")
        case .spansNotSent: (.warning, "Dropped spans that the collector did not accept")
        case .domainUnknown: (.warning, "Rate limit request for an unknown domain; the request is allowed")
        }
    }
}

extension Logger {
    /// Writes one line; see `write`.
    package func log(_ event: SidecarLogEvent, _ fields: @autoclosure () -> [String: String] = [:]) { write(event, fields) }
}

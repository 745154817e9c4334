internal import Interlock
internal import InterlockCore
internal import InterlockHTTP
internal import NIOCore
internal import NIOHTTP1
internal import NIOPosix
internal import RedisClient
internal import SidecarListeners

/// The failure of a call to an upstream.
struct ProxyFailure: Error, Sendable {
    enum Cause: String, Sendable {
        /// No connection could be made, or its certificate is not trusted.
        case connect
        case connectTimeout = "connect_timeout"
        /// The connection was closed before a response began.
        case closed
        case firstByteTimeout = "first_byte_timeout"
        case totalTimeout = "total_timeout"
        /// The request or the response was idle for too long.
        case idleTimeout = "idle_timeout"
        /// The service was never called, because this sidecar was overloaded and the call waited too long.
        case waited
        /// The response was truncated or is not HTTP.
        case broken
        /// The client did not finish its request, or disconnected.
        case client
    }

    var cause: Cause
    /// The description for the log.
    var reason: String
    /// The reason for a failed connection, with the upstream's address.
    var addressedReason: String?
    var verdict: Verdict
    /// Whether the upstream may have processed the request, if no byte of a response arrived and this is known.
    var interruption: HTTPClientConnection.Interruption.Kind?

    /// The meaning of a failed call for the service's breaker.
    enum Verdict: Sendable {
        /// Counts against the service.
        case service
        /// Shows only how long the service took.
        case neutral
        /// The service responded properly, so the status of its response counts.
        case response
    }

    static let connectTimeout = ProxyFailure(
        cause: .connectTimeout, reason: "no connection was established within timeouts.connect")
    static let firstByteTimeout = ProxyFailure(
        cause: .firstByteTimeout, reason: "no response began within timeouts.first_byte")
    static let totalTimeout = ProxyFailure(cause: .totalTimeout, reason: "the call took longer than timeouts.total")
    /// The total timeout of a call that was sent too late for the timeout to count against the service.
    static let startedLate = ProxyFailure(
        cause: .totalTimeout, reason: "timeouts.total expired; most of it had passed before the call was sent",
        verdict: .neutral)
    /// The total timeout of a call whose response was in progress.
    static let truncated = ProxyFailure(
        cause: .totalTimeout, reason: "the response took longer than timeouts.total", verdict: .response)
    static let idleTimeout = ProxyFailure(cause: .idleTimeout, reason: "no data was transferred within timeouts.idle")
    static let streamIdle = ProxyFailure(
        cause: .idleTimeout, reason: "the stream was idle for timeouts.idle", verdict: .response)
    static let clientIsSilent = ProxyFailure(
        cause: .client, reason: "the client did not send its request or read the response within timeouts.idle",
        verdict: .neutral)
    static let waited = ProxyFailure(
        cause: .waited, reason: "the call waited for timeouts.total and was never sent", verdict: .neutral)
    static let clientIsSlow = ProxyFailure(
        cause: .client, reason: "the client did not send its request or read the response within timeouts.total",
        verdict: .neutral)
    static let clientLeft = ProxyFailure(cause: .client, reason: "the client disconnected", verdict: .neutral)

    var isTimeout: Bool { [.connectTimeout, .firstByteTimeout, .totalTimeout, .idleTimeout].contains(cause) }

    /// Whether no response has begun and a retry may succeed. `ProxiedCallStateMachine` decides whether to retry.
    var mayBeRetried: Bool { [.connect, .connectTimeout, .closed].contains(cause) }

    /// The progress of a call when it failed.
    enum Stage: Sendable {
        case connecting, sent, responding
    }

    init(cause: Cause, reason: String, verdict: Verdict = .service) {
        self.cause = cause
        self.reason = reason
        self.verdict = verdict
    }

    /// Returns whether the request may be resent regardless of the configured retries, provided that its body can be
    /// resent. Either the service is known not to have processed it, or it is idempotent and its connection was closing
    /// (RFC 9110, section 9.2.2; RFC 9112, section 9.3.1).
    func mayBeResent(isIdempotent: Bool) -> Bool {
        switch interruption {
        case .unprocessed: true
        case .stale: isIdempotent
        case nil: false
        }
    }

    /// Classifies an error of the upstream's connection.
    /// - Parameter origin: the upstream's origin, if no connection to it could be established.
    init(_ error: any Error, at stage: Stage, to origin: String? = nil) {
        let interruption = error as? HTTPClientConnection.Interruption
        let error = interruption?.cause ?? error
        let cause: Cause =
            switch stage {
            case .connecting: Self.isTimeout(error) ? .connectTimeout : .connect
            // The upstream sent data that is not HTTP.
            case .sent where error is HTTPParserError || error is HTTPClientConnection.Malformed: .broken
            case .sent: .closed
            case .responding: .broken
            }
        let reason = (error as? HTTPClientConnection.Malformed)?.reason ?? "\(NetworkReason(error))"
        self.init(cause: cause, reason: reason, verdict: interruption == nil ? .service : .neutral)
        self.interruption = interruption?.kind
        addressedReason = origin.map { NetworkReason(error).sentence(connectingTo: $0) }
    }

    private static func isTimeout(_ error: any Error) -> Bool {
        switch error {
        case ChannelError.connectTimeout: true
        case let error as NIOConnectionError: error.connectionErrors.contains { isTimeout($0.error) }
        default: false
        }
    }
}

/// The proxy's own responses, in place of an upstream's.
extension HTTPProblem {
    private static let seeLog = "set log.level to debug to see why"

    static func notProxied(_ service: String) -> HTTPProblem {
        HTTPProblem(.noURL, "the service \"\(Excerpt(service))\" has no url in the configuration, so the proxy cannot call it")
    }

    static func noWebSocket(_ service: String) -> HTTPProblem {
        HTTPProblem(
            .invalid,
            "the service \"\(Excerpt(service))\" uses HTTP/2, and WebSockets need HTTP/1.1; configure a second service for this URL without http2"
        )
    }

    /// Returns the problem of a call that failed or was never sent.
    /// - Parameter showsAddress: whether the caller may see the upstream's address.
    static func failed(_ failure: ProxyFailure, service: String, showsAddress: Bool) -> HTTPProblem {
        let addressedReason = showsAddress ? failure.addressedReason : nil
        var problem =
            switch failure.cause {
            case .client:
                clientDisconnected
            case .connectTimeout, .firstByteTimeout, .totalTimeout, .idleTimeout:
                HTTPProblem(
                    .upstreamTimeout, "the service \"\(service)\" did not answer in time; see timeouts in the configuration")
            case .waited:
                HTTPProblem(
                    .upstreamTimeout,
                    "the service \"\(service)\" was not called: this sidecar is overloaded, and the call waited for timeouts.total"
                )
            case .connect:
                HTTPProblem(
                    .upstreamFailed,
                    "the service \"\(service)\" is unreachable" + (addressedReason.map { ": \($0)" } ?? "; \(seeLog)"))
            case .closed:
                HTTPProblem(
                    .upstreamFailed, "the service \"\(service)\" closed the connection before its response; \(seeLog)")
            case .broken:
                HTTPProblem(.upstreamFailed, "the response of the service \"\(service)\" is incomplete or not HTTP; \(seeLog)")
            }
        problem.fields["cause"] = .string(failure.cause.rawValue)
        return problem
    }
}

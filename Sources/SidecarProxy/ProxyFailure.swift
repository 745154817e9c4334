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
        /// The connection was closed before an answer began.
        case closed
        case firstByteTimeout = "first_byte_timeout"
        case totalTimeout = "total_timeout"
        /// The request or the answer was idle for too long.
        case idleTimeout = "idle_timeout"
        /// The service was never called, because this sidecar was overloaded.
        case waited
        /// The answer broke off or was not HTTP.
        case broken
        /// The client did not finish its request, or has left.
        case client
    }

    var cause: Cause
    /// The description for the log.
    var reason: String
    /// The side that the breaker blames for a failed call.
    enum Verdict: Sendable {
        /// Counts against the service.
        case service
        /// Says nothing about the service except how long it took.
        case nobody
        /// The service answered properly: its status counts.
        case answer
    }

    var verdict: Verdict
    /// The fate of a request that no byte of an answer followed, if it is known.
    var interruption: HTTPClientConnection.Interruption.Kind?

    static let connectTimeout = ProxyFailure(cause: .connectTimeout, reason: "no connection stood within timeouts.connect")
    static let firstByte = ProxyFailure(cause: .firstByteTimeout, reason: "no answer began within timeouts.first_byte")
    static let total = ProxyFailure(cause: .totalTimeout, reason: "the call took longer than timeouts.total")
    /// Most of the time had passed before the service was called, so the timeout says nothing about the service.
    static let rest = ProxyFailure(
        cause: .totalTimeout, reason: "the call took longer than what was left of timeouts.total when it was sent",
        verdict: .nobody)
    /// An answer in progress, or an idle stream, that this sidecar's own timer ended.
    static let cut = ProxyFailure(
        cause: .totalTimeout, reason: "the answer went on for longer than timeouts.total", verdict: .answer)
    static let idle = ProxyFailure(cause: .idleTimeout, reason: "nothing passed within timeouts.idle")
    static let quiet = ProxyFailure(
        cause: .idleTimeout, reason: "the stream had nothing to say within timeouts.idle", verdict: .answer)
    static let clientIsSilent = ProxyFailure(
        cause: .client, reason: "the client did not send its request, or read the answer, within timeouts.idle",
        verdict: .nobody)
    static let waited = ProxyFailure(
        cause: .waited, reason: "the call waited for timeouts.total before it could be made", verdict: .nobody)
    static let clientIsSlow = ProxyFailure(
        cause: .client, reason: "the client did not send its request, or read the answer, within timeouts.total",
        verdict: .nobody)
    static let clientLeft = ProxyFailure(cause: .client, reason: "the client has left", verdict: .nobody)

    var isTimeout: Bool { [.connectTimeout, .firstByteTimeout, .totalTimeout, .idleTimeout].contains(cause) }

    /// Whether the upstream certainly has not answered, and a retry may succeed. `ProxiedCallStateMachine` decides.
    var mayBeRetried: Bool { [.connect, .connectTimeout, .closed].contains(cause) }

    /// The progress of a call when it failed.
    enum Stage: Sendable {
        case connecting, sent, answering
    }

    init(cause: Cause, reason: String, verdict: Verdict = .service) {
        self.cause = cause
        self.reason = reason
        self.verdict = verdict
    }

    /// Whether the request may be resent regardless of the configured retries, provided that its body still can be.
    /// Either the service has certainly not processed it, or it is idempotent and its connection was ending (RFC 9110,
    /// section 9.2.2; RFC 9112, 9.3.1).
    func mayBeResent(isIdempotent: Bool) -> Bool {
        switch interruption {
        case .unprocessed: true
        case .stale: isIdempotent
        case nil: false
        }
    }

    init(_ error: any Error, at stage: Stage) {
        let interruption = error as? HTTPClientConnection.Interruption
        let error = interruption?.cause ?? error
        let cause: Cause =
            switch stage {
            case .connecting: Self.isTimeout(error) ? .connectTimeout : .connect
            // The upstream sent something that is not HTTP.
            case .sent where error is HTTPParserError || error is HTTPClientConnection.Malformed: .broken
            case .sent: .closed
            case .answering: .broken
            }
        let reason = (error as? HTTPClientConnection.Malformed)?.reason ?? "\(NetworkReason(error))"
        self.init(cause: cause, reason: reason, verdict: interruption == nil ? .service : .nobody)
        self.interruption = interruption?.kind
    }

    private static func isTimeout(_ error: any Error) -> Bool {
        switch error {
        case ChannelError.connectTimeout: true
        case let error as NIOConnectionError: error.connectionErrors.contains { isTimeout($0.error) }
        default: false
        }
    }
}

/// The proxy's own answers, in place of an upstream's.
extension HTTPProblem {
    static func notProxied(_ service: String) -> HTTPProblem {
        HTTPProblem(
            .unknownService, "the service \"\(Excerpt(service))\" has no url in the configuration; the proxy does not call it")
    }

    static func noWebSocket(_ service: String) -> HTTPProblem {
        HTTPProblem(
            .invalid,
            "the service \"\(Excerpt(service))\" is called with HTTP/2 (http2 in the configuration), which carries no WebSocket; name it once more, without http2, for those"
        )
    }

    /// Returns the problem of a call that failed, or that waited too long to be made.
    static func failed(_ failure: ProxyFailure, service: String) -> HTTPProblem {
        var problem =
            switch failure.cause {
            case .client:
                clientHasLeft
            case .connectTimeout, .firstByteTimeout, .totalTimeout, .idleTimeout:
                HTTPProblem(
                    .upstreamTimeout, "the service \"\(service)\" did not answer in time; see timeouts in the configuration")
            case .waited:
                HTTPProblem(
                    .upstreamTimeout,
                    "the service \"\(service)\" was not asked: this sidecar has more calls than it can carry, and the call waited for timeouts.total"
                )
            case .connect:
                HTTPProblem(
                    .upstreamFailed, "no connection could be made to the service \"\(service)\"; log.level debug says why")
            case .closed, .broken:
                HTTPProblem(
                    .upstreamFailed, "the service \"\(service)\" broke off the call before its answer; log.level debug says why")
            }
        problem.members["cause"] = .text(failure.cause.rawValue)
        return problem
    }
}

internal import AsyncHTTPClient
internal import HTTPTypes
internal import Hiredis
internal import Interlock
internal import InterlockCore

/// Why a call to an upstream came to nothing.
struct ProxyFailure: Error, Sendable {
    enum Cause: String, Sendable {
        /// No connection could be made, or its certificate is not trusted.
        case connect
        case connectTimeout = "connect_timeout"
        /// The connection was closed before an answer began.
        case closed
        case firstByteTimeout = "first_byte_timeout"
        case totalTimeout = "total_timeout"
        /// The answer broke off or was not HTTP.
        case broken
        /// The client did not finish its request, or has left.
        case client
    }

    var cause: Cause
    /// For the log.
    var reason: String

    static let firstByte = ProxyFailure(cause: .firstByteTimeout, reason: "no answer began within timeouts.first_byte")
    static let total = ProxyFailure(cause: .totalTimeout, reason: "the call took longer than timeouts.total")
    static let clientIsSlow = ProxyFailure(
        cause: .client, reason: "the client did not send its request, or read the answer, within timeouts.total")
    static let clientLeft = ProxyFailure(cause: .client, reason: "the client has left")

    var isTimeout: Bool { [.connectTimeout, .firstByteTimeout, .totalTimeout].contains(cause) }

    /// Whether the upstream certainly has not answered, and another try may fare better.
    var mayBeRetried: Bool { [.connect, .connectTimeout, .closed].contains(cause) }

    /// How far the call had come when it failed.
    enum Stage: Sendable {
        case connecting, sent, answering
    }

    init(cause: Cause, reason: String) {
        self.cause = cause
        self.reason = reason
    }

    init(_ error: any Error, at stage: Stage) {
        if let failure = error as? ProxyFailure {
            self = failure
            return
        }
        let cause: Cause =
            switch (stage, error as? HTTPClientError) {
            case (_, .deadlineExceeded): .totalTimeout
            case (.connecting, .connectTimeout), (.connecting, .tlsHandshakeTimeout),
                (.connecting, .getConnectionFromPoolTimeout):
                .connectTimeout
            case (.connecting, _): .connect
            case (.sent, .bodyLengthMismatch): .client
            case (.sent, _): .closed
            case (.answering, _): .broken
            }
        self.init(cause: cause, reason: (error as? HTTPClientError)?.shortDescription ?? "\(NetworkReason(error))")
    }
}

/// Why the proxy did not pass on an upstream's answer.
extension HTTPProblem {
    static func notProxied(_ service: String) -> HTTPProblem {
        HTTPProblem(
            .unknownService, "the service \"\(Excerpt(service))\" has no url in the configuration; the proxy does not call it")
    }

    /// Breaker, limit or concurrency stand against the call.
    static func refused(_ refusal: ProxyPermits.Refusal, service: String, subject: String?) -> HTTPProblem {
        var problem = refused(refusal.reason, refusal.state, service: service, retryAfter: refusal.retryAfter)
        switch refusal.reason {
        case .open:
            problem.members["cause"] = .text(refusal.cause)
        case .limited:
            problem.members["cause"] = .text("limit")
            problem.detail = "a limit of the service \"\(service)\" is reached; try again in \(refusal.retryAfter) ms"
            RateLimitFields(binding(refusal, hasSubject: subject != nil), limits: refusal.limits, hasSubject: subject != nil)
                .add(to: &problem.headers)
        case .busy:
            problem.members["cause"] = .text("concurrency")
        }
        return problem
    }

    /// The call was made and failed.
    static func failed(_ failure: ProxyFailure, service: String) -> HTTPProblem {
        var problem =
            switch failure.cause {
            case .client:
                clientHasLeft
            case .connectTimeout, .firstByteTimeout, .totalTimeout:
                HTTPProblem(
                    .upstreamTimeout, "the service \"\(service)\" did not answer in time; see timeouts in the configuration")
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

    /// A permit's refusal does not say which limit binds, only for how long: the one with the shortest window that is as long.
    private static func binding(_ refusal: ProxyPermits.Refusal, hasSubject: Bool) -> LimitAnswer {
        let candidates = refusal.limits.indices.filter { index in
            let limit = refusal.limits[index]
            return !limit.isShadow && (hasSubject || !limit.isPerSubject)
        }
        let fitting = candidates.filter { refusal.limits[$0].windowMilliseconds >= refusal.retryAfter }
        let index = (fitting.isEmpty ? candidates : fitting).min {
            refusal.limits[$0].windowMilliseconds < refusal.limits[$1].windowMilliseconds
        }
        return LimitAnswer(
            retryAfter: refusal.retryAfter, limit: index.map { refusal.limits[$0].limit } ?? 0, remaining: 0,
            resetAfter: refusal.retryAfter, limitName: index.map { refusal.limits[$0].name })
    }
}

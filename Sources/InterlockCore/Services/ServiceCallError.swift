/// The error of a guarded call that was not made.
public struct ServiceCallError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason: `open`, `limited`, `busy`, or the code of the error that prevented the call.
    public var code: InterlockError.Code
    /// The service's name, as the caller gave it.
    public var service: String
    /// The breaker's state; `nil` if an error and not a refusal prevented the call.
    public var state: BreakerSnapshot.State?
    /// The time until the same call may be made; `nil` if unknown.
    public var retryAfter: Duration?
    /// The human-readable explanation: what was asked, what was wrong, what to do.
    public var message: String

    package init(
        _ code: InterlockError.Code, service: String, state: BreakerSnapshot.State? = nil, retryAfter: Duration? = nil,
        message: String
    ) {
        self.code = code
        self.service = service
        self.state = state
        self.retryAfter = retryAfter
        self.message = message
    }

    /// The message.
    public var description: String { message }
}

extension ServiceCallError {
    /// Creates the error of a refused call.
    /// - Parameters:
    ///   - code: `open`, `limited` or `busy`; a newer sidecar may send another code.
    ///   - milliseconds: the time until the same call may be made; -1 if unknown.
    package init(
        refused code: InterlockError.Code, service: String, state: BreakerSnapshot.State?,
        retryAfterMilliseconds milliseconds: Int64
    ) {
        let isRetryTimeKnown = milliseconds >= 0
        let advice =
            isRetryTimeKnown ? "try again in \(milliseconds) ms, or allow a longer wait" : "try again later"
        let finding =
            switch code {
            case .open: "the breaker of the service \"\(service)\" is open"
            case .limited: "a limit of the service \"\(service)\" is reached"
            case .busy: "the service \"\(service)\" has reached its concurrency limit"
            default: "the service \"\(service)\" cannot be called now (\(code))"
            }
        self.init(
            code, service: service, state: state, retryAfter: isRetryTimeKnown ? .milliseconds(milliseconds) : nil,
            message: "\(finding): \(advice)")
    }

    /// Creates the error of a call that `error` prevented.
    package init(_ error: InterlockError, service: String) {
        let code = error.code == .unreplicated || error.code == .other ? .unavailable : error.code
        self.init(code, service: service, message: error.message)
    }
}

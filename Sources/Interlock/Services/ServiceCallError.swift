public import InterlockCore

/// Why a guarded call was not made.
public struct ServiceCallError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The reason: `open`, `limited`, `busy`, or the code of the error that kept the call from being made.
    public var code: InterlockError.Code
    /// The service's name, as the caller gave it.
    public var service: String
    /// The breaker's state, where it was looked at.
    public var state: BreakerSnapshot.State?
    /// When the same call may be made; `nil`: unknown.
    public var retryAfter: Duration?
    /// For people: what was asked, what was wrong, what to do.
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
    /// - Parameter milliseconds: when to try again; -1: nobody knows.
    init(
        refused reason: PermitAnswer.Reason, service: String, state: BreakerSnapshot.State, retryAfter milliseconds: Int64
    ) {
        let canHelp = milliseconds >= 0
        let advice =
            canHelp
            ? "try again in \(milliseconds) ms, or give it more patience"
            : "nobody knows for how long"
        switch reason {
        case .open:
            self.init(.open, service: service, message: "the breaker of the service \"\(service)\" is open: \(advice)")
        case .limited:
            self.init(.limited, service: service, message: "a limit of the service \"\(service)\" is reached: \(advice)")
        case .busy:
            self.init(
                .busy, service: service,
                message: "all places for calls to the service \"\(service)\" are taken in this program: \(advice)")
        }
        self.state = state
        retryAfter = canHelp ? .milliseconds(milliseconds) : nil
    }

    init(_ error: InterlockError, service: String) {
        let code = error.code == .unreplicated || error.code == .other ? .unavailable : error.code
        self.init(code, service: service, message: error.message)
    }
}

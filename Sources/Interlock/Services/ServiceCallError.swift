public import InterlockCore

/// Why a guarded call was not made.
public struct ServiceCallError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What a program switches on.
    public enum Code: Hashable, Sendable {
        /// The service's breaker is open.
        case open
        /// A limit of the service is reached.
        case limited
        /// Too many calls to the service are under way in this program.
        case busy
        /// Redis cannot be reached or cannot serve, and the service's `whenRedisIsDown` is `deny`; or the coordinator is stopping.
        case unavailable
        /// No such service is configured.
        case unknownService
        /// The call's own arguments are wrong.
        case invalid
        /// The task was cancelled before the call was made.
        case cancelled
    }

    public var code: Code
    public var service: String
    /// The breaker's state, where it was looked at.
    public var state: BreakerSnapshot.State?
    /// When the same call may be made; `nil`: unknown, or no wait can help.
    public var retryAfter: Duration?
    /// For people: what was asked, what was wrong, what to do.
    public var message: String

    public init(
        _ code: Code, service: String, state: BreakerSnapshot.State? = nil, retryAfter: Duration? = nil, message: String
    ) {
        self.code = code
        self.service = service
        self.state = state
        self.retryAfter = retryAfter
        self.message = message
    }

    public var description: String { message }
}

extension ServiceCallError {
    /// - Parameter milliseconds: when to try again; -1: no wait can help.
    init(
        refused reason: PermitAnswer.Reason, service: String, state: BreakerSnapshot.State, retryAfter milliseconds: Int64
    ) {
        let canHelp = milliseconds >= 0
        let advice =
            canHelp
            ? "try again in \(milliseconds) ms, or give it more patience"
            : "no wait can help: ask for less at once, or raise the limit"
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
        let code: Code =
            switch error.code {
            case .unknownService: .unknownService
            case .invalid: .invalid
            case .cancelled: .cancelled
            case .unavailable, .unreplicated, .other: .unavailable
            }
        self.init(code, service: service, message: error.message)
    }
}

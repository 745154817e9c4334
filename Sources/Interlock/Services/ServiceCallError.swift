public import InterlockCore

/// Why a guarded call was not made.
public struct ServiceCallError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What a program switches on. Later versions may know more codes: a `switch` needs a `default`.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private let name: String

        /// The code's name.
        public var description: String { name }

        /// The service's breaker is open.
        public static let open = Code(name: "open")
        /// A limit of the service is reached.
        public static let limited = Code(name: "limited")
        /// Too many calls to the service are under way in this program.
        public static let busy = Code(name: "busy")
        /// Redis cannot be reached or cannot serve, and the service's `whenRedisIsDown` is `deny`; or the coordinator is
        /// stopping.
        public static let unavailable = Code(name: "unavailable")
        /// No such service is configured.
        public static let unknownService = Code(name: "unknownService")
        /// The call's own arguments are wrong.
        public static let invalid = Code(name: "invalid")
        /// The task was cancelled before the call was made.
        public static let cancelled = Code(name: "cancelled")
    }

    /// Why the call was not made.
    public var code: Code
    /// The service's name, as the caller gave it.
    public var service: String
    /// The breaker's state, where it was looked at.
    public var state: BreakerSnapshot.State?
    /// When the same call may be made; `nil`: unknown.
    public var retryAfter: Duration?
    /// For people: what was asked, what was wrong, what to do.
    public var message: String

    package init(
        _ code: Code, service: String, state: BreakerSnapshot.State? = nil, retryAfter: Duration? = nil, message: String
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
        let code: Code =
            switch error.code.known {
            case .unknownService: .unknownService
            case .invalid: .invalid
            case .cancelled: .cancelled
            case .unavailable, .unreplicated, .other: .unavailable
            }
        self.init(code, service: service, message: error.message)
    }
}

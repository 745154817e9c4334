/// The error of a call to Interlock, embedded or through a sidecar. A held lock, a lost lease and an unreachable Redis
/// are always different errors.
public struct InterlockError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of an error, for programs. Later versions may have more codes: a `switch` needs a `default`.
    public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
        /// The code's name; for an error that a sidecar reports, its first word.
        public let rawValue: String

        /// Creates a code from its name.
        public init(rawValue: String) {
            self.rawValue = rawValue
        }

        /// The code's name.
        public var description: String { rawValue }
    }

    /// The kind of the error.
    public var code: Code
    /// The human-readable explanation: what was asked, what was wrong, what to do.
    public var message: String
    /// The reason for the loss of a lease; `nil` with every code but `leaseLost`, and when the reason is unknown.
    public var loss: LeaseLoss?
    /// Whether a sidecar reported this error. If not, the call failed in this process.
    public var isFromSidecar: Bool

    /// Creates an error with this code and a human-readable message.
    public init(_ code: Code, _ message: String) {
        self.init(code, message, isFromSidecar: false)
    }

    package init(_ code: Code, _ message: String, loss: LeaseLoss? = nil, isFromSidecar: Bool) {
        self.code = code
        self.message = message
        self.loss = loss
        self.isFromSidecar = isFromSidecar
    }

    /// The message; for an error that a sidecar reports, preceded by its first word.
    public var description: String { isFromSidecar ? "\(code.rawValue) \(message)" : message }

    /// Whether the call may have been executed although its response is missing.
    public var isOutcomeUnknown: Bool { code == .responseTimedOut || code == .responseLost }

    /// Whether there is no connection to the sidecar, so that the call was never sent.
    public var isConnectionFailure: Bool { code == .notConnected || code == .connectionFailed }
}

extension InterlockError.Code {
    // MARK: Every call

    /// The call is wrong, for example in a name, a number or a permit. The same call fails again.
    public static let invalid = Self(rawValue: "INVALID")
    /// The configuration has no such service.
    public static let unknownService = Self(rawValue: "UNKNOWN")
    /// Redis is unreachable or cannot serve the call.
    public static let unavailable = Self(rawValue: "UNAVAILABLE")
    /// Too few replicas confirmed a lease or its renewal. A new lease is released; a renewed lease keeps its previous
    /// end.
    public static let unreplicated = Self(rawValue: "UNREPLICATED")
    /// Any other error; the message is that of Redis or of the sidecar.
    public static let other = Self(rawValue: "ERR")

    // MARK: Locks

    /// Another holder has the lock, and the call did not wait.
    public static let held = Self(rawValue: "held")
    /// Another holder had the lock for the whole wait.
    public static let waitTimedOut = Self(rawValue: "wait-over")
    /// The lease was lost while the body of `withLock` ran; `loss` has the reason.
    public static let leaseLost = Self(rawValue: "lease-lost")

    // MARK: Guarded calls

    /// The service's breaker is open.
    public static let open = Self(rawValue: "open")
    /// A limit of the service is reached.
    public static let limited = Self(rawValue: "limited")
    /// Too many calls to the service are in flight in this program.
    public static let busy = Self(rawValue: "busy")

    // MARK: Connecting to a sidecar

    /// There is no connection, or the client is closed, so the call was never sent.
    public static let notConnected = Self(rawValue: "not-connected")
    /// The connection could not be established: refused, an unknown host, or a TLS failure.
    public static let connectionFailed = Self(rawValue: "connection-failed")
    /// Too many calls are in flight: this one was never sent.
    public static let overloaded = Self(rawValue: "overloaded")
    /// The call was sent, and no response arrived in time. The sidecar may have executed it or may still execute it.
    public static let responseTimedOut = Self(rawValue: "timed-out")
    /// The connection was lost before the response arrived. The sidecar may have executed the call.
    public static let responseLost = Self(rawValue: "answer-lost")
    /// The response is not that of a sidecar: the port is wrong, or another program or version listens there.
    public static let invalidResponse = Self(rawValue: "unreadable")
    /// The sidecar requires an API key.
    public static let missingAPIKey = Self(rawValue: "NOAUTH")
    /// The sidecar does not know the API key.
    public static let invalidAPIKey = Self(rawValue: "WRONGPASS")
    /// The API key does not have the role that the call needs.
    public static let permissionDenied = Self(rawValue: "NOPERM")
}

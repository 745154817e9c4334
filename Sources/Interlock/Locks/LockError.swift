/// Why `Locks` could not do what was asked: held, lost and unreachable are never the same.
public struct LockError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What a program switches on.
    public enum Code: Hashable, Sendable {
        /// Another has the lock, and nobody wanted to wait.
        case held
        /// Another had the lock until the wait was over.
        case timedOut
        /// The lease was lost while the body ran.
        case lost(LeaseLoss)
        /// Redis cannot be reached or cannot serve.
        case unavailable
        /// The request itself is wrong.
        case invalid
        /// The task was cancelled.
        case cancelled
    }

    public var code: Code
    /// For people: what was asked, what was wrong, what to do.
    public var message: String

    public init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public var description: String { message }
}

extension LockError {
    init(_ error: InterlockError) {
        let code: Code =
            switch error.code {
            case .invalid, .unknownService: .invalid
            case .cancelled: .cancelled
            case .unavailable, .unreplicated, .other: .unavailable
            }
        self.init(code, error.message)
    }
}

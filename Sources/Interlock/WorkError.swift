/// The reason why work was not accepted or did not finish.
public struct WorkError: Error, CustomStringConvertible {
    /// The code that programs switch on. Later versions may add codes, so a `switch` needs a `default`.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private let name: String

        /// The code's name.
        public var description: String { name }

        /// The work was cancelled through its item or with its queue.
        public static let cancelled = Code(name: "cancelled")
        /// The queue was shut down.
        public static let shutDown = Code(name: "shutDown")
        /// The work did not begin, because work on which it depends failed or was cancelled; `dependency` names that
        /// work.
        public static let dependency = Code(name: "dependency")
        /// The queue has reached its maximum amount of pending work.
        public static let full = Code(name: "full")
        /// The queue does not accept work, because it is shut down or its scope has ended.
        public static let closed = Code(name: "closed")
        /// The call itself is wrong, for example because a dependency belongs to another queue or the queue runs twice.
        public static let invalid = Code(name: "invalid")
    }

    /// The kind of error.
    public var code: Code
    /// The name of the dependency that did not succeed; `nil` unless the code is `dependency`.
    public var dependency: String?
    /// A human-readable description: the request, the problem and the remedy.
    public var message: String
    /// The error of the dependency that did not succeed.
    public var underlying: (any Error)?

    package init(_ code: Code, _ message: String, dependency: String? = nil, underlying: (any Error)? = nil) {
        self.code = code
        self.dependency = dependency
        self.message = message
        self.underlying = underlying
    }

    /// The message.
    public var description: String { message }
}

extension WorkError {
    /// The reason why work is cancelled.
    enum Cause {
        case cancelled
        case shutDown
    }

    /// Creates the error of work that was cancelled for `cause`.
    init(_ cause: Cause, name: String) {
        switch cause {
        case .cancelled: self.init(.cancelled, "\"\(name)\" was cancelled")
        case .shutDown: self.init(.shutDown, "\"\(name)\" did not finish because its queue was shut down")
        }
    }

    /// Creates the error of work that did not begin because of `dependency`.
    init(name: String, dependency: any WorkRecord) {
        let error = dependency.error
        let reason = error.map { ": \($0)" } ?? ""
        self.init(
            .dependency,
            "\"\(name)\" was not started because \"\(dependency.name)\" did not succeed\(reason)",
            dependency: dependency.name, underlying: error)
    }
}

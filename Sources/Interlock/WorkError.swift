/// Why work was not taken on, or did not get to its end.
public struct WorkError: Error, CustomStringConvertible {
    /// What a program switches on. Later versions may know more codes: a `switch` needs a `default`.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        private let name: String

        /// The code's name.
        public var description: String { name }

        /// It was cancelled by its item or with its queue.
        public static let cancelled = Code(name: "cancelled")
        /// Its queue was shut down.
        public static let shutDown = Code(name: "shutDown")
        /// Work that it comes after failed or was cancelled, so it did not begin; `dependency` names that work.
        public static let dependency = Code(name: "dependency")
        /// The queue holds as much work as it may.
        public static let full = Code(name: "full")
        /// The queue takes no more work: it is shut down, or its scope has ended.
        public static let closed = Code(name: "closed")
        /// The call itself is wrong: a dependency of another queue, a queue that runs twice.
        public static let invalid = Code(name: "invalid")
    }

    /// What went wrong.
    public var code: Code
    /// The name of the work that this comes after and that did not succeed; `nil` with every code but `dependency`.
    public var dependency: String?
    /// For people: what was asked, what was wrong, what to do.
    public var message: String
    /// The error of the work that it comes after.
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
    /// Why work ends that was told to.
    enum Cause {
        case cancelled
        case shutDown
    }

    init(_ cause: Cause, name: String) {
        switch cause {
        case .cancelled: self.init(.cancelled, "\"\(name)\" was cancelled")
        case .shutDown: self.init(.shutDown, "\"\(name)\" did not get to its end: its queue was shut down")
        }
    }

    init(name: String, dependency: any WorkRecord) {
        let error = dependency.error
        let reason = error.map { ": \($0)" } ?? ""
        self.init(
            .dependency,
            "\"\(name)\" was not begun: \"\(dependency.name)\", which it comes after, did not succeed\(reason)",
            dependency: dependency.name, underlying: error)
    }
}

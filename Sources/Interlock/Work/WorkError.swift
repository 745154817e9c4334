/// Why work was not taken on, or did not get to its end.
public struct WorkError: Error, CustomStringConvertible {
    /// What a program switches on.
    public enum Code: Hashable, Sendable {
        /// It was cancelled by its item or with its queue.
        case cancelled
        /// Its queue was shut down.
        case shutDown
        /// Work that it comes after, of this name, failed or was cancelled; so it did not begin.
        case dependency(String)
        /// The queue holds as much work as it may.
        case full
        /// The queue takes no more work: it is shut down, or its scope has ended.
        case closed
        /// The call itself is wrong: a dependency of another queue, a queue that runs twice.
        case invalid
    }

    public var code: Code
    /// For people: what was asked, what was wrong, what to do.
    public var message: String
    /// The error of the work that it comes after.
    public var underlying: (any Error)?

    public init(_ code: Code, _ message: String, underlying: (any Error)? = nil) {
        self.code = code
        self.message = message
        self.underlying = underlying
    }

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
            .dependency(dependency.name),
            "\"\(name)\" was not begun: \"\(dependency.name)\", which it comes after, did not succeed\(reason)",
            underlying: error)
    }
}

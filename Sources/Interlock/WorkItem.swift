/// One piece of ordered work: see `WorkQueue.add`. It may be dropped; the work goes on.
public struct WorkItem<Value: Sendable>: WorkDependency {
    let record: TypedWorkRecord<Value>
    /// What the queue knows it by.
    public let reference: WorkReference

    /// What it was called when it was added.
    public var name: String { record.name }

    /// What it is doing now.
    public var state: WorkState { record.state }

    /// Each state from the present one on. It ends after the last one; whoever is slow sees the latest and not each one
    /// before it. It may be had as often as one likes.
    public var states: AsyncStream<WorkState> { record.states }

    /// What the operation returns, when it has ended.
    /// - Throws: what the operation throws; `ServiceCallError` when its service refused the call; `WorkError` when it was
    ///   cancelled; `CancellationError` when the task that waits here is cancelled, which the work does not notice.
    public var value: Value {
        get async throws {
            for await state in states where state.isEnd { break }
            guard let result = record.result else { throw CancellationError() }
            return try result.get()
        }
    }

    /// Cancels the work, and all that comes after it. What has not begun never will; an operation that runs has its task
    /// cancelled, and stays `executing` until it ends. Does nothing to work that has ended.
    public func cancel() {
        reference.queue.cancel(reference)
    }
}

/// Work that other work can come after: a `WorkItem` of any value.
public protocol WorkDependency: Sendable {
    /// What its queue knows it by.
    var reference: WorkReference { get }
}

/// Which work it is, for its queue.
public struct WorkReference: Sendable {
    let queue: WorkQueue
    /// `nil`: it had ended when it was added.
    let id: UInt64?
    let record: any WorkRecord
}

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

/// What a piece of ordered work is doing.
public enum WorkState: Hashable, Sendable {
    /// How an operation ended.
    public enum Ending: Hashable, Sendable {
        /// It returned a value.
        case success
        /// It threw an error, or its service refused the call.
        case failure
    }

    /// Work that it comes after has not ended.
    case waiting
    /// It waits for a place in its queue, then for a permit of its service.
    case ready
    /// Its operation runs.
    case executing
    /// Its operation has ended.
    case finished(Ending)
    /// It was cancelled, its queue shut down, or work that it comes after did not succeed. An operation that was running has
    /// ended.
    case cancelled

    /// Whether it stays in this state.
    public var isEnd: Bool {
        switch self {
        case .waiting, .ready, .executing: false
        case .finished, .cancelled: true
        }
    }
}

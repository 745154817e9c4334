/// The state of a piece of ordered work.
public enum WorkState: Hashable, Sendable {
    /// The outcome of an operation.
    public enum Ending: Hashable, Sendable {
        /// The operation returned a value.
        case success
        /// The operation threw an error, or its service refused the call.
        case failure
    }

    /// Waiting for work on which it depends.
    case waiting
    /// Waiting for a slot in its queue, then for a permit of its service.
    case ready
    /// The operation is running.
    case executing
    /// The operation has ended.
    case finished(Ending)
    /// The work was cancelled, its queue was shut down, or work on which it depends did not succeed. A running
    /// operation has ended.
    case cancelled

    /// Whether the state is final.
    public var isEnd: Bool {
        switch self {
        case .waiting, .ready, .executing: false
        case .finished, .cancelled: true
        }
    }
}

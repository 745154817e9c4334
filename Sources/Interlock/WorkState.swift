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

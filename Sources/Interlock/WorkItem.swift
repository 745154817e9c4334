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

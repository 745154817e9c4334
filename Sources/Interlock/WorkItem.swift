/// One piece of ordered work; see `WorkQueue.add`. Dropping the item does not cancel the work.
public struct WorkItem<Value: Sendable>: WorkDependency {
    let record: TypedWorkRecord<Value>
    /// The reference that identifies the work within its queue.
    public let reference: WorkReference

    /// The name under which the work was added.
    public var name: String { record.name }

    /// The current state.
    public var state: WorkState { record.state }

    /// The current state and all later ones. The stream ends after the final state. A slow consumer gets only the
    /// latest state. Any number of streams can be created.
    public var states: AsyncStream<WorkState> { record.states }

    /// The result of the operation, once it has ended.
    /// - Throws: the error of the operation, `ServiceCallError` if its service refused the call, `WorkError` if the
    ///   work was cancelled, or `CancellationError` if the waiting task is cancelled, which does not affect the work.
    public var value: Value {
        get async throws {
            for await state in states where state.isEnd { break }
            guard let result = record.result else { throw CancellationError() }
            return try result.get()
        }
    }

    /// Cancels the work and all work that depends on it. Work that has not begun never starts. The task of a running
    /// operation is cancelled, and the work stays `executing` until the operation ends. Has no effect on work that has
    /// ended.
    public func cancel() {
        reference.queue.cancel(reference)
    }
}

/// Work on which other work can depend: a `WorkItem` of any value.
public protocol WorkDependency: Sendable {
    /// The reference that identifies the work within its queue.
    var reference: WorkReference { get }
}

/// A reference to a piece of work within its queue.
public struct WorkReference: Sendable {
    let queue: WorkQueue
    /// The ID in the queue; `nil` if the work had already ended when it was added.
    let id: UInt64?
    let record: any WorkRecord
}

internal import InterlockCore
internal import NIOConcurrencyHelpers
public import ServiceLifecycle

/// Guarded calls in an order: each call begins once the work on which it depends has succeeded. The number of
/// concurrent operations is limited.
///
/// Work may be added at any time and begins while the queue runs, in a `ServiceGroup` or in the scope of
/// `Services.withWork`. If a piece of work fails or is cancelled, all work that depends on it is cancelled. There are
/// no cycles, because dependencies must be added first.
public final class WorkQueue: Service {
    private struct Entry {
        var record: any WorkRecord
        var task: Task<Void, Never>?
        /// The reason why the work was cancelled; `nil` if it was not.
        var cause: WorkError.Cause?
    }

    private struct State {
        var order: WorkOrder
        var entries: [UInt64: Entry] = [:]
        /// Whether the queue is closed to new work.
        var isClosed = false
    }

    private let services: Services
    private let state: NIOLockedValueBox<State>
    /// The IDs of work that may begin, consumed by the running queue. There are never more than `maximumExecuting`.
    private let startIDs: AsyncStream<UInt64>
    private let startContinuation: AsyncStream<UInt64>.Continuation

    /// Creates an empty queue.
    /// - Parameters:
    ///   - services: the services that work can name.
    ///   - maximumExecuting: the maximum number of concurrent operations, including those that wait for a permit;
    ///     1 or more.
    ///   - maximumPending: the maximum amount of work that has not ended; 1 or more. Further work is refused.
    public init(_ services: Services, maximumExecuting: Int = 8, maximumPending: Int = 1000) {
        self.services = services
        state = NIOLockedValueBox(
            State(order: WorkOrder(maximumStarted: maximumExecuting, capacity: maximumPending)))
        (startIDs, startContinuation) = AsyncStream.makeStream(of: UInt64.self)
    }

    // MARK: Adding

    /// Adds work.
    ///
    /// - Parameters:
    ///   - name: a human-readable name of the work, which errors quote.
    ///   - service: the service that the operation calls, as by `Services.call`; `nil` if the call is not guarded.
    ///   - cost: the amount to take from the service's limits, 1 or more.
    ///   - subject: the tenant that the call counts for in limits per subject.
    ///   - wait: the maximum wait for a permit; `nil` for the wait of the service's `onLimit`.
    ///   - judge: derives the outcome for the service from the call's result.
    ///   - dependencies: the items of this queue that must succeed before the work begins. Their values are then
    ///     available immediately.
    ///   - operation: the work. It should end when its task is cancelled.
    /// - Returns: the item with which to watch, await and cancel the work. If a dependency has already failed or been
    ///   cancelled, the work is cancelled.
    /// - Throws: `WorkError` if the queue is full or closed, or if a dependency belongs to another queue.
    public func add<Value: Sendable>(
        _ name: String, service: String? = nil, cost: Int = 1, subject: String? = nil, wait: Duration? = nil,
        judgedBy judge: @escaping @Sendable (Result<Value, any Error>) -> OutcomeReport = { OutcomeReport(of: $0) },
        after dependencies: [any WorkDependency] = [],
        operation: @escaping @Sendable () async throws -> Value
    ) throws(WorkError) -> WorkItem<Value> {
        let references = dependencies.map(\.reference)
        for dependency in references where dependency.queue !== self {
            throw WorkError(
                .invalid, "\"\(name)\" cannot depend on \"\(dependency.record.name)\", which belongs to another queue")
        }
        let record = TypedWorkRecord<Value>(name: name, state: .waiting) { [services] begin in
            guard let service else {
                begin()
                return try await operation()
            }
            return try await services.call(service, cost: cost, subject: subject, wait: wait, judgedBy: judge) {
                begin()
                return try await operation()
            }
        }
        return WorkItem(
            record: record,
            reference: WorkReference(queue: self, id: try insert(record, after: references), record: record))
    }

    /// Inserts the work and returns its ID; `nil` if it was cancelled immediately, because a dependency did not
    /// succeed.
    private func insert(_ record: any WorkRecord, after dependencies: [WorkReference]) throws(WorkError) -> UInt64? {
        let result: Result<UInt64?, WorkError> = state.withLockedValue { state in
            guard !state.isClosed else {
                return .failure(WorkError(.closed, "\"\(record.name)\" was not accepted: the queue is closed"))
            }
            for dependency in dependencies {
                switch dependency.record.state {
                case .waiting, .ready, .executing, .finished(.success): continue
                case .finished(.failure), .cancelled:
                    record.end(WorkError(name: record.name, dependency: dependency.record))
                    return .success(nil)
                }
            }
            guard let id = state.order.add(after: dependencies.compactMap(\.id)) else {
                return .failure(
                    WorkError(
                        .full, "\"\(record.name)\" was not accepted: the queue is full (\(state.order.capacity) items)"
                    ))
            }
            state.entries[id] = Entry(record: record)
            if state.order.stage(of: id) == .ready { record.move(to: .ready) }
            beginNext(&state)
            return .success(id)
        }
        return try result.get()
    }

    // MARK: Cancelling

    /// Cancels all work that has not ended. Other work can still be added.
    public func cancelAll() {
        endAll(.cancelled)
    }

    func cancel(_ reference: WorkReference) {
        guard let id = reference.id else { return }
        let task: Task<Void, Never>? = state.withLockedValue { state in
            guard state.order.stage(of: id) == .started else {
                apply(state.order.cancel(id), cause: .cancelled, to: &state)
                closeIfDone(state)
                return nil
            }
            return Self.markCancelled(id, .cancelled, in: &state)
        }
        // Outside the lock, because a cancellation handler may call back.
        task?.cancel()
    }

    private func endAll(_ cause: WorkError.Cause) {
        let tasks = state.withLockedValue { state in
            if cause == .shutDown {
                state.isClosed = true
                startContinuation.finish()
            }
            var tasks: [Task<Void, Never>] = []
            for id in state.order.all {
                if state.order.stage(of: id) == .started {
                    if let task = Self.markCancelled(id, cause, in: &state) { tasks.append(task) }
                } else {
                    for cancelled in state.order.cancel(id).cancelled {
                        guard let record = state.entries.removeValue(forKey: cancelled.id)?.record else { continue }
                        record.end(WorkError(cause, name: record.name))
                    }
                }
            }
            closeIfDone(state)
            return tasks
        }
        for task in tasks { task.cancel() }
    }

    /// Marks started work as cancelled, and returns the task to cancel. Keeps the first cause.
    private static func markCancelled(_ id: UInt64, _ cause: WorkError.Cause, in state: inout State) -> Task<Void, Never>? {
        if state.entries[id]?.cause == nil { state.entries[id]?.cause = cause }
        return state.entries[id]?.task
    }

    // MARK: Running

    /// Runs the work until graceful shutdown or cancellation. Then the queue refuses new work, cancels work that has
    /// not begun and cancels the tasks of running operations. The method returns when these have ended.
    /// - Throws: `WorkError` if the queue is running or has run.
    public func run() async throws {
        guard beginRunning() else { throw WorkError(.invalid, "the queue is running or has run; create a new one") }
        await serve()
    }

    /// Marks the queue as running. Returns `false` if it was already.
    func beginRunning() -> Bool {
        state.withLockedValue { state in
            guard !state.order.isRunning else { return false }
            state.order.isRunning = true
            beginNext(&state)
            return true
        }
    }

    /// Runs work until the queue is shut down, or closed and empty.
    func serve() async {
        await withTaskCancellationOrGracefulShutdownHandler {
            await withDiscardingTaskGroup { group in
                for await id in startIDs { group.addTask { await self.execute(id) } }
            }
        } onCancelOrGracefulShutdown: {
            self.endAll(.shutDown)
        }
        endAll(.shutDown)
        state.withLockedValue { state in
            for id in state.order.all { end(id, in: &state) }
        }
    }

    /// Stops accepting work. `serve` returns when the work already added has ended.
    func close() {
        state.withLockedValue { state in
            state.isClosed = true
            closeIfDone(state)
        }
    }

    private func closeIfDone(_ state: borrowing State) {
        if state.isClosed, state.order.count == 0 { startContinuation.finish() }
    }

    private func execute(_ id: UInt64) async {
        let task: Task<Void, Never>? = state.withLockedValue { state in
            guard let entry = state.entries[id], entry.cause == nil else { return nil }
            let task = Task { await entry.record.perform { self.operationBegan(id) } }
            state.entries[id]?.task = task
            return task
        }
        if let task {
            await withTaskCancellationHandler {
                await task.value
            } onCancel: {
                // The task that runs the queue was cancelled, which the work reports as a shutdown.
                self.endAll(.shutDown)
            }
        }
        state.withLockedValue { end(id, in: &$0) }
    }

    private func operationBegan(_ id: UInt64) {
        state.withLockedValue { $0.entries[id]?.record.move(to: .executing) }
    }

    private func end(_ id: UInt64, in state: inout State) {
        guard let entry = state.entries.removeValue(forKey: id) else { return }
        entry.record.end(cause: entry.cause)
        let effects = state.order.workEnded(id, succeeded: entry.record.state == .finished(.success))
        apply(effects, cause: entry.cause ?? .cancelled, after: entry.record, id: id, to: &state)
        beginNext(&state)
        closeIfDone(state)
    }

    private func beginNext(_ state: inout State) {
        while let id = state.order.takeNext() { startContinuation.yield(id) }
    }

    /// Applies the effects of work that ended or was cancelled on other work.
    /// - Parameters:
    ///   - cause: the reason for a cancellation that was requested directly.
    ///   - ended: the work that has just ended; `nil` after a cancellation.
    private func apply(
        _ effects: WorkOrder.Effects, cause: WorkError.Cause, after ended: (any WorkRecord)? = nil, id: UInt64? = nil,
        to state: inout State
    ) {
        for id in effects.ready { state.entries[id]?.record.move(to: .ready) }
        // The effects list cancelled work after the dependency that caused the cancellation.
        var endedRecords: [UInt64: any WorkRecord] = [:]
        if let id { endedRecords[id] = ended }
        for cancellation in effects.cancelled {
            guard let record = state.entries.removeValue(forKey: cancellation.id)?.record else { continue }
            endedRecords[cancellation.id] = record
            if let dependency = cancellation.cause.flatMap({ endedRecords[$0] }) {
                record.end(WorkError(name: record.name, dependency: dependency))
            } else {
                record.end(WorkError(cause, name: record.name))
            }
        }
    }
}

extension Services {
    /// Runs ordered work while `body` runs, for example a login and then a fetch.
    ///
    /// After `body` returns, the method waits until all added work has ended, like a task group. If `body` throws or
    /// its task is cancelled, the work is cancelled.
    ///
    /// - Parameters:
    ///   - maximumExecuting: the maximum number of concurrent operations; 1 or more.
    ///   - maximumPending: the maximum amount of work that has not ended; 1 or more. Further work is refused.
    ///   - body: adds work and takes its values.
    /// - Returns: the result of `body`.
    /// - Throws: the error of `body`.
    public func withWork<Result>(
        maximumExecuting: Int = 8, maximumPending: Int = 1000, _ body: (WorkQueue) async throws -> Result
    ) async rethrows -> Result {
        let queue = WorkQueue(self, maximumExecuting: maximumExecuting, maximumPending: maximumPending)
        _ = queue.beginRunning()
        async let serving: Void = queue.serve()
        do {
            let result = try await body(queue)
            queue.close()
            await serving
            return result
        } catch {
            queue.close()
            queue.cancelAll()
            await serving
            throw error
        }
    }
}

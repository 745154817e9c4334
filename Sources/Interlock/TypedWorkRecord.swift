internal import InterlockCore
internal import NIOConcurrencyHelpers

/// A piece of work: its operation, its state, its observers and finally its value.
final class TypedWorkRecord<Value: Sendable>: WorkRecord {
    private struct Progress {
        var state: WorkState
        /// The result of the operation, which becomes `result` when the work ends.
        var outcome: Result<Value, any Error>?
        var result: Result<Value, any Error>?
        var observers: [UInt64: AsyncStream<WorkState>.Continuation] = [:]
        var lastObserverID: UInt64 = 0
    }

    let name: String
    private let operation: @Sendable (_ begin: @escaping @Sendable () -> Void) async throws -> Value
    private let progress: NIOLockedValueBox<Progress>

    init(
        name: String, state: WorkState,
        operation: @escaping @Sendable (_ begin: @escaping @Sendable () -> Void) async throws -> Value
    ) {
        self.name = name
        self.operation = operation
        progress = NIOLockedValueBox(Progress(state: state))
    }

    var state: WorkState { progress.withLockedValue { $0.state } }

    var result: Result<Value, any Error>? { progress.withLockedValue { $0.result } }

    var error: (any Error)? {
        if case .failure(let error) = result { error } else { nil }
    }

    /// The current state and all later ones. A slow consumer gets only the latest. The stream ends after the final
    /// state.
    var states: AsyncStream<WorkState> {
        let (stream, continuation) = AsyncStream.makeStream(of: WorkState.self, bufferingPolicy: .bufferingNewest(1))
        let observerID: UInt64? = progress.withLockedValue { progress in
            continuation.yield(progress.state)
            guard !progress.state.isEnd else { return nil }
            progress.lastObserverID += 1
            progress.observers[progress.lastObserverID] = continuation
            return progress.lastObserverID
        }
        guard let observerID else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            self?.progress.withLockedValue { $0.observers[observerID] = nil }
        }
        return stream
    }

    func perform(begin: @escaping @Sendable () -> Void) async {
        let outcome = await Result(awaiting: { try await operation(begin) })
        progress.withLockedValue { $0.outcome = outcome }
    }

    func move(to state: WorkState) {
        progress.withLockedValue { progress in
            progress.state = state
            for observer in progress.observers.values { observer.yield(state) }
        }
    }

    func end(cause: WorkError.Cause?) {
        switch progress.withLockedValue({ $0.outcome }) {
        case .success(let value): end(.finished(.success), .success(value))
        case .failure(let error):
            guard let cause = cause ?? (error is CancellationError ? .cancelled : nil) else {
                return end(.finished(.failure), .failure(error))
            }
            end(WorkError(cause, name: name))
        // The work was started, but cancelled before its operation could begin.
        case nil: end(WorkError(cause ?? .cancelled, name: name))
        }
    }

    func end(_ error: WorkError) {
        end(.cancelled, .failure(error))
    }

    private func end(_ state: WorkState, _ result: Result<Value, any Error>) {
        let observers = progress.withLockedValue { progress in
            progress.state = state
            progress.outcome = nil
            progress.result = result
            defer { progress.observers = [:] }
            return progress.observers
        }
        // Outside the lock, because the termination handler of an observer takes it.
        for observer in observers.values {
            observer.yield(state)
            observer.finish()
        }
    }
}

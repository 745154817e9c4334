internal import Dispatch
internal import InterlockCore
internal import InterlockJudge
internal import NIOConcurrencyHelpers

/// Writes a history to a file while the run records it. Uses its own queue, so that a stalled disk or pipe does not
/// delay clients.
final class HistoryLog: Sendable {
    private struct State {
        /// The writer; `nil` after a failed write.
        var writer: HistoryWriter?
        var failure: (any Error)?
    }

    /// The maximum number of queued events.
    private static let maximumQueuedCount = 200_000
    /// The time limit for writing the remaining events.
    private static let closeTimeout = Duration.seconds(10)

    private let path: String
    private let queue = DispatchQueue(label: "interlock.history")
    /// The number of queued events; `nil` once it has exceeded the limit.
    private let queuedCount = NIOLockedValueBox<Int?>(0)
    /// The state of the file. Only the queue uses it, and holds the lock while it writes.
    private let state: NIOLockedValueBox<State>

    /// Creates the file.
    /// - Throws: an error if the file cannot be written.
    init(path: String, rules: HistoryRules) throws {
        self.path = path
        state = NIOLockedValueBox(State(writer: try HistoryWriter(path: path, rules: rules)))
    }

    /// Queues an event without blocking. The run continues if the file cannot be written, and `close` throws the error.
    func append(_ event: HistoryEvent) {
        let isAccepted = queuedCount.withLockedValue { queuedCount in
            guard let count = queuedCount, count < Self.maximumQueuedCount else {
                // A history with a gap is useless, so the rest is not recorded either.
                queuedCount = nil
                return false
            }
            queuedCount = count + 1
            return true
        }
        guard isAccepted else { return }
        queue.async { [self] in
            queuedCount.withLockedValue { $0 = $0.map { $0 - 1 } }
            state.withLockedValue { state in
                do {
                    try state.writer?.write(event)
                } catch {
                    state.failure = error
                    state.writer = nil
                }
            }
        }
    }

    /// Writes the remaining events and closes the file.
    /// - Parameter end: the end of the history.
    /// - Throws: an error if the file is incomplete.
    func close(at end: Instant?) async throws {
        let (results, continuation) = AsyncStream<Result<Void, any Error>>.makeStream()
        queue.async { [self] in
            continuation.yield(
                state.withLockedValue { state in
                    Result {
                        if let failure = state.failure { throw failure }
                        guard queuedCount.withLockedValue({ $0 }) != nil else { throw HistoryLogError(path: path) }
                        try state.writer?.close(at: end)
                        state.writer = nil
                    }
                })
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(Int(Self.closeTimeout.wholeMilliseconds))) { [path] in
            continuation.yield(.failure(HistoryLogError(path: path)))
        }
        for await result in results { return try result.get() }
    }
}

/// A history file that cannot be written as fast as the run produces events.
private struct HistoryLogError: Error, CustomStringConvertible {
    let path: String

    var description: String {
        "the history \"\(path)\" cannot be written fast enough; use a faster disk, or lower --rate"
    }
}

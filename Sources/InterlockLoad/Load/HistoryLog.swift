internal import InterlockJudge
internal import InterlockCore
internal import NIOCore

/// Writes a history down while it is made, on the event loop on which it is recorded.
final class HistoryLog: Sendable {
    private struct State {
        /// `nil`: it could not be written any more.
        var writer: HistoryWriter?
        var failure: (any Error)?
    }

    private let eventLoop: any EventLoop
    private let state: NIOLoopBoundBox<State>

    /// - Throws: when the file cannot be written.
    init(path: String, rules: HistoryRules, eventLoop: any EventLoop) throws {
        self.eventLoop = eventLoop
        state = .makeBoxSendingValue(State(writer: try HistoryWriter(path: path, rules: rules)), eventLoop: eventLoop)
    }

    /// Called on the event loop. The run goes on when the file cannot be written; `close` says so.
    func append(_ event: HistoryEvent) {
        do {
            try state.value.writer?.write(event)
        } catch {
            state.value.failure = error
            state.value.writer = nil
        }
    }

    /// - Parameter end: when the history was over.
    /// - Throws: why the file is not whole.
    func close(at end: Instant?) async throws {
        try await eventLoop.submit { [self] in
            if let failure = state.value.failure { throw failure }
            try state.value.writer?.close(at: end)
            state.value.writer = nil
        }.get()
    }
}

package import Interlock
package import InterlockCore
package import InterlockJudge
package import NIOCore

/// Stamps what happens with the time, has it checked, and hands it on, in order. Lives on a run's event loop, as everything
/// that records; only faults come from outside.
package final class HistoryRecorder: Sendable {
    /// Takes the events one after another. Called on the event loop; must not block.
    package typealias Sink = @Sendable (HistoryEvent) -> Void

    private struct State: Sendable {
        var check: HistoryCheck?
        var faults: [Int: FaultKind] = [:]
    }

    package let eventLoop: any EventLoop
    private let time: TimeSource
    private let sinks: [Sink]
    private let state: NIOLoopBoundBox<State>

    /// - Parameters:
    ///   - eventLoop: the run's.
    ///   - rules: what the history is judged by while it goes by; `nil`: it is not.
    ///   - time: the monotonic clock that all processes of this machine share.
    ///   - sinks: further receivers of the history, such as a file.
    package init(eventLoop: any EventLoop, rules: HistoryRules? = nil, time: TimeSource = .system, sinks: [Sink] = []) {
        self.eventLoop = eventLoop
        self.time = time
        self.sinks = sinks
        state = .makeBoxSendingValue(State(check: rules.map { HistoryCheck(rules: $0) }), eventLoop: eventLoop)
    }

    /// Records what happens now. Called on the event loop.
    /// - Returns: when that is.
    @discardableResult
    package func record(_ what: HistoryEvent.What) -> Instant {
        let now = time.now()
        switch what {
        case .faultBegan(let fault, let kind, _): state.value.faults[fault] = kind
        case .faultEnded(let fault): state.value.faults[fault] = nil
        case .invoked, .ended, .wrote, .linked, .forced, .breakerSeen: break
        }
        let event = HistoryEvent(at: now, what)
        state.value.check?.observe(event)
        for sink in sinks { sink(event) }
        return now
    }

    /// The same for those who are not on the event loop: it is recorded when this returns.
    @discardableResult
    package func recordFromOutside(_ what: HistoryEvent.What) async -> Instant {
        await withCheckedContinuation { continuation in
            eventLoop.execute { continuation.resume(returning: self.record(what)) }
        }
    }

    /// The history is over: judges what has no end. Nothing is recorded afterwards.
    /// - Returns: what was found; `nil`: there were no rules to judge by.
    package func finish() async -> HistoryCheck? {
        await withCheckedContinuation { continuation in
            eventLoop.execute {
                self.state.value.check?.finish(at: self.time.now())
                continuation.resume(returning: self.state.value.check)
            }
        }
    }

    func now() -> Instant { time.now() }

    /// The faults that are on, in the order in which they began. Called on the event loop.
    var faults: [FaultKind] { state.value.faults.sorted { $0.key < $1.key }.map(\.value) }

    /// How many promises were found broken so far. Called on the event loop.
    var violationCount: Int { state.value.check?.violationCount ?? 0 }
}

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

internal import Dispatch
package import Interlock
package import InterlockCore
package import InterlockJudge
internal import NIOConcurrencyHelpers
package import NIOCore

/// Timestamps events, checks them, and passes them on in order. Lives on the run's event loop, like all of its callers
/// except the fault rig.
package final class HistoryRecorder: Sendable {
    /// A receiver of the events, one after another. Called on the event loop; must not block.
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
    ///   - eventLoop: the event loop of the run.
    ///   - rules: the rules to check the history by; `nil` if it is not checked.
    ///   - time: the monotonic clock that all processes of this machine share.
    ///   - sinks: further receivers of the history, such as a file.
    package init(eventLoop: any EventLoop, rules: HistoryRules? = nil, time: TimeSource = .system, sinks: [Sink] = []) {
        self.eventLoop = eventLoop
        self.time = time
        self.sinks = sinks
        state = .makeBoxSendingValue(State(check: rules.map { HistoryCheck(rules: $0) }), eventLoop: eventLoop)
    }

    /// Records an event with the current time. Call it on the event loop.
    /// - Returns: the time of the event.
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

    /// Records an event from outside the event loop. Returns once it is recorded.
    @discardableResult
    package func recordFromOutside(_ what: HistoryEvent.What) async -> Instant {
        await withCheckedContinuation { continuation in
            eventLoop.execute { continuation.resume(returning: self.record(what)) }
        }
    }

    /// Ends the history and judges operations without an end. No event may follow.
    /// - Returns: the finished check; `nil` if the history is not checked.
    package func finish() async -> HistoryCheck? {
        await withCheckedContinuation { continuation in
            eventLoop.execute {
                self.state.value.check?.finish(at: self.time.now())
                continuation.resume(returning: self.state.value.check)
            }
        }
    }

    func now() -> Instant { time.now() }

    /// The active faults in the order in which they began. Read it on the event loop.
    var faults: [FaultKind] { state.value.faults.sorted { $0.key < $1.key }.map(\.value) }

    /// The number of violations so far. Read it on the event loop.
    var violationCount: Int { state.value.check?.violationCount ?? 0 }
}

/// Writes a history to a file while the run records it. Uses its own queue, so that a stalled disk or pipe delays no
/// client.
final class HistoryLog: Sendable {
    private struct State {
        /// The writer; `nil` after a failed write.
        var writer: HistoryWriter?
        var failure: (any Error)?
    }

    /// The limit of queued events.
    private static let limit = 200_000
    /// The time allowed to write the remaining events.
    private static let patience = Duration.seconds(10)

    private let path: String
    private let queue = DispatchQueue(label: "interlock.history")
    /// The number of queued events; `nil` once it has exceeded the limit.
    private let waiting = NIOLockedValueBox<Int?>(0)
    /// The state of the file. Only the queue holds its lock for longer than a moment.
    private let state: NIOLockedValueBox<State>

    /// - Throws: an error if the file cannot be written.
    init(path: String, rules: HistoryRules) throws {
        self.path = path
        state = NIOLockedValueBox(State(writer: try HistoryWriter(path: path, rules: rules)))
    }

    /// Queues an event without blocking. The run continues if the file cannot be written, and `close` throws the error.
    func append(_ event: HistoryEvent) {
        let isAccepted = waiting.withLockedValue { waiting in
            guard let count = waiting, count < Self.limit else {
                // A history with a gap is useless from there on.
                waiting = nil
                return false
            }
            waiting = count + 1
            return true
        }
        guard isAccepted else { return }
        queue.async { [self] in
            waiting.withLockedValue { $0 = $0.map { $0 - 1 } }
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
                        guard waiting.withLockedValue({ $0 }) != nil else { throw HistoryLogError(path: path) }
                        try state.writer?.close(at: end)
                        state.writer = nil
                    }
                })
        }
        DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(Int(Self.patience.wholeMilliseconds))) { [path] in
            continuation.yield(.failure(HistoryLogError(path: path)))
        }
        for await result in results { return try result.get() }
    }
}

/// The error of a file that the run outpaces.
private struct HistoryLogError: Error, CustomStringConvertible {
    let path: String

    var description: String {
        "the history \"\(path)\" cannot be written fast enough; use a faster disk, or lower --rate"
    }
}

internal import Dispatch
package import Interlock
package import InterlockCore
package import InterlockJudge
internal import NIOConcurrencyHelpers
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

/// Writes a history to a file while the run records it. It has its own queue, so that a stalled disk or pipe delays no client.
final class HistoryLog: Sendable {
    private struct State {
        /// `nil`: it could not be written any more.
        var writer: HistoryWriter?
        var failure: (any Error)?
    }

    /// The most events that wait to be written.
    private static let limit = 200_000
    /// How long the last of them may take.
    private static let patience = Duration.seconds(10)

    private let path: String
    private let queue = DispatchQueue(label: "interlock.history")
    /// How many wait; `nil`: once there were too many.
    private let waiting = NIOLockedValueBox<Int?>(0)
    /// Only the queue takes it for longer than a moment.
    private let state: NIOLockedValueBox<State>

    /// - Throws: when the file cannot be written.
    init(path: String, rules: HistoryRules) throws {
        self.path = path
        state = NIOLockedValueBox(State(writer: try HistoryWriter(path: path, rules: rules)))
    }

    /// Never waits. The run goes on when the file cannot be written; `close` says so.
    func append(_ event: HistoryEvent) {
        let isAccepted = waiting.withLockedValue { waiting in
            guard let count = waiting, count < Self.limit else {
                // The history has a gap: nothing more of it is of use.
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

    /// - Parameter end: when the history was over.
    /// - Throws: why the file is not whole.
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

/// The error of a history that the run records faster than the file accepts it.
private struct HistoryLogError: Error, CustomStringConvertible {
    let path: String

    var description: String {
        "the history \"\(path)\": is written more slowly than it grows; name a file on a faster disk, or lower --rate"
    }
}

package import Interlock
package import InterlockCore
package import InterlockJudge
package import NIOCore

/// Adds the time to events, checks them, and passes them on in order. Confined to the run's event loop, except for
/// `recordFromOutside` and `finish`.
package final class HistoryRecorder: Sendable {
    /// A closure that receives the events one after another, on the event loop. It must not block.
    package typealias Sink = @Sendable (HistoryEvent) -> Void

    private struct State: Sendable {
        var check: HistoryCheck?
        var faults: [Int: FaultKind] = [:]
    }

    package let eventLoop: any EventLoop
    private let time: TimeSource
    private let sinks: [Sink]
    private let state: NIOLoopBoundBox<State>

    /// Creates a recorder of an empty history.
    /// - Parameters:
    ///   - eventLoop: the event loop of the run.
    ///   - rules: the rules for checking the history; `nil` to record it unchecked.
    ///   - time: the monotonic clock that all processes of this machine share.
    ///   - sinks: further receivers of the history, such as a file.
    package init(eventLoop: any EventLoop, rules: HistoryRules? = nil, time: TimeSource = .system, sinks: [Sink] = []) {
        self.eventLoop = eventLoop
        self.time = time
        self.sinks = sinks
        state = .makeBoxSendingValue(State(check: rules.map { HistoryCheck(rules: $0) }), eventLoop: eventLoop)
    }

    /// Records an event with the current time. Must be called on the event loop.
    /// - Returns: the time of the event.
    @discardableResult
    package func record(_ kind: HistoryEvent.Kind) -> Instant {
        let now = time.now()
        switch kind {
        case .faultBegan(let fault, let kind, _): state.value.faults[fault] = kind
        case .faultEnded(let fault): state.value.faults[fault] = nil
        case .invoked, .ended, .wrote, .linked, .forced, .breakerSeen: break
        }
        let event = HistoryEvent(at: now, kind)
        state.value.check?.observe(event)
        for sink in sinks { sink(event) }
        return now
    }

    /// Records an event from outside the event loop. Returns once it is recorded.
    @discardableResult
    package func recordFromOutside(_ kind: HistoryEvent.Kind) async -> Instant {
        await withCheckedContinuation { continuation in
            eventLoop.execute { continuation.resume(returning: self.record(kind)) }
        }
    }

    /// Ends the history, and checks the operations that have no end. No event may follow.
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

    /// The active faults in the order in which they began. Must be read on the event loop.
    var faults: [FaultKind] { state.value.faults.sorted { $0.key < $1.key }.map(\.value) }

    /// The number of violations so far. Must be read on the event loop.
    var violationCount: Int { state.value.check?.violationCount ?? 0 }
}

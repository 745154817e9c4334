internal import CoreMetrics
internal import NIOConcurrencyHelpers

/// The subscriptions to a coordinator's events. On any thread: who subscribes does not wait for the event loop, so that
/// nothing is missed between the call and its return.
final class EventSubscriptions: Sendable {
    /// Where one subscription's events go.
    private struct Sink: Sendable {
        /// `false`: an older event had to give way.
        var push: @Sendable (ReceivedEvent) -> Bool
        var finish: @Sendable () -> Void
    }

    private struct State {
        var sinks: [UInt64: Sink] = [:]
        var lastID: UInt64 = 0
        var isFinished = false
    }

    private let state = NIOLockedValueBox(State())
    private let dropped: Counter

    /// - Parameter dropped: counts events that gave way because their subscriber was slower.
    init(dropped: Counter) {
        self.dropped = dropped
    }

    var count: Int { state.withLockedValue { $0.sinks.count } }

    /// From now on `buffer` gets what `select` makes of each event, until the registration ends. It is finished then, or
    /// when the coordinator stops.
    func add<Element: Sendable>(
        _ buffer: NewestBuffer<Element>, select: @escaping @Sendable (ReceivedEvent) -> Element?
    ) -> EventRegistration {
        let sink = Sink(
            push: { event in select(event).map { buffer.push($0) } ?? true },
            finish: { buffer.finish() })
        let id: UInt64? = state.withLockedValue { state in
            guard !state.isFinished else { return nil }
            state.lastID += 1
            state.sinks[state.lastID] = sink
            return state.lastID
        }
        guard let id else {
            buffer.finish()
            return EventRegistration {}
        }
        return EventRegistration { [self] in
            state.withLockedValue { $0.sinks[id] = nil }
            buffer.finish()
        }
    }

    func publish(_ event: ReceivedEvent) {
        let sinks = state.withLockedValue { $0.sinks }
        for sink in sinks.values where !sink.push(event) { dropped.increment() }
    }

    /// No further event will come.
    func finish() {
        let sinks = state.withLockedValue { state in
            state.isFinished = true
            defer { state.sinks = [:] }
            return state.sinks
        }
        for sink in sinks.values { sink.finish() }
    }
}

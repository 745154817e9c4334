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

/// A subscription to events of one kind, read with `for await`.
///
/// It ends when it and its iterators are dropped, when a task that waits for its next event is cancelled, with `cancel`, and
/// when the coordinator stops; then what is kept can still be read, unless the task was cancelled. It never holds up
/// whoever publishes. Iterators share its events: each event goes to one of them.
public struct EventSubscription<Element: Sendable>: AsyncSequence, Sendable {
    /// It never throws.
    public typealias Failure = Never

    private let buffer: NewestBuffer<Element>
    private let registration: EventRegistration

    init(buffer: NewestBuffer<Element>, registration: EventRegistration) {
        self.buffer = buffer
        self.registration = registration
    }

    /// How many events are kept at most.
    public var capacity: Int { buffer.capacity }

    /// How many events were dropped so far because they were not read in time.
    public var dropped: Int64 { buffer.dropped }

    /// Ends the subscription.
    public func cancel() {
        registration.end()
    }

    /// One more reader of this subscription: each event goes to one of them.
    public func makeAsyncIterator() -> Iterator {
        Iterator(subscription: self)
    }

    /// A reader of the subscription.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let subscription: EventSubscription

        /// The next event, as soon as there is one; `nil`: the subscription has ended.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> Element? {
            guard let element = await subscription.buffer.next() else {
                subscription.registration.end()
                return nil
            }
            return element
        }
    }
}

/// A place among those that events are handed to. It ends with `end`, and when nobody keeps it any more.
package final class EventRegistration: Sendable {
    private let onEnd: @Sendable () -> Void

    /// - Parameter onEnd: may be called more than once, on any thread.
    init(onEnd: @escaping @Sendable () -> Void) {
        self.onEnd = onEnd
    }

    deinit {
        onEnd()
    }

    package func end() {
        onEnd()
    }
}

/// Hands each event to whoever follows them here. Confined to the coordinator's event loop; only the subscriptions may be
/// touched from elsewhere.
final class EventFeed {
    typealias FollowerID = UInt64

    let subscriptions: EventSubscriptions
    /// In the order in which they came.
    private var followers: [(id: FollowerID, follower: (EventMessage, InterlockEvent<EventPayload>?) -> Void)] = []
    private var lastID: FollowerID = 0

    init(subscriptions: EventSubscriptions) {
        self.subscriptions = subscriptions
    }

    /// `follower` must not block: a slow one buffers and drops for itself.
    func add(_ follower: @escaping (EventMessage, InterlockEvent<EventPayload>?) -> Void) -> FollowerID {
        lastID += 1
        followers.append((lastID, follower))
        return lastID
    }

    func remove(_ id: FollowerID) {
        followers.removeAll { $0.id == id }
    }

    func publish(_ event: ReceivedEvent) {
        subscriptions.publish(event)
        for (_, follower) in followers { follower(event.message, event.event) }
    }
}

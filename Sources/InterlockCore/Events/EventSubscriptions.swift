internal import Synchronization

/// The subscriptions to the events of a coordinator or a client. A subscription can begin on any thread and without
/// waiting for an event loop, so no event is missed between the call and its return.
package final class EventSubscriptions: Sendable {
    /// The destination of one subscription's events.
    private struct Sink: Sendable {
        /// Adds a message, and returns `false` if that dropped an older event.
        var push: @Sendable (SubscriptionMessage) -> Bool
        var finish: @Sendable () -> Void
    }

    private struct State {
        var sinks: [UInt64: Sink] = [:]
        var lastID: UInt64 = 0
        var isFinished = false
        /// The state of the connection; `nil` before the first attempt to connect, or if no connection is needed.
        var connection: EventConnection?
        /// The handler of changes of the number of subscriptions.
        var onCountChange: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())
    private let onDrop: @Sendable () -> Void

    /// Creates the subscriptions of a coordinator or a client.
    /// - Parameter onDrop: a handler that runs for each event dropped because its subscriber was too slow.
    package init(onDrop: @escaping @Sendable () -> Void = {}) {
        self.onDrop = onDrop
    }

    package var count: Int { state.withLock { $0.sinks.count } }

    /// Calls `body` after each change of `count`, on any thread.
    package func whenCountChanges(_ body: @escaping @Sendable () -> Void) {
        state.withLock { $0.onCountChange = body }
    }

    /// Passes all messages that `select` maps to an element to `buffer`, the connection's current state first. At the
    /// end of the registration, or of all subscriptions, it finishes the buffer.
    func add<Element: Sendable>(
        _ buffer: NewestBuffer<Element>, select: @escaping @Sendable (SubscriptionMessage) -> Element?
    ) -> EventRegistration {
        let sink = Sink(
            push: { message in select(message).map { buffer.push($0) } ?? true },
            finish: { buffer.finish() })
        let (id, onCountChange) = state.withLock { state -> (UInt64?, (@Sendable () -> Void)?) in
            guard !state.isFinished else { return (nil, nil) }
            if let connection = state.connection { _ = sink.push(.connection(connection)) }
            state.lastID += 1
            state.sinks[state.lastID] = sink
            return (state.lastID, state.onCountChange)
        }
        guard let id else {
            buffer.finish()
            return EventRegistration {}
        }
        onCountChange?()
        return EventRegistration { [self] in
            let onCountChange = state.withLock { $0.sinks.removeValue(forKey: id) == nil ? nil : $0.onCountChange }
            buffer.finish()
            onCountChange?()
        }
    }

    /// Passes a message to all subscriptions.
    package func publish(_ message: SubscriptionMessage) {
        let sinks = state.withLock { $0.sinks }
        for sink in sinks.values where !sink.push(message) { onDrop() }
    }

    /// Records the state of the connection, and publishes it. Publishes an interruption once, however many attempts to
    /// connect fail.
    /// - Parameter connection: the state; `nil` if no connection is needed.
    package func recordConnection(_ connection: EventConnection?) {
        let hasChanged = state.withLock { state in
            defer { state.connection = connection }
            if case .interrupted = connection, case .interrupted = state.connection { return false }
            return true
        }
        if let connection, hasChanged { publish(.connection(connection)) }
    }

    /// Ends all subscriptions.
    package func finish() {
        let sinks = state.withLock { state in
            state.isFinished = true
            defer { state.sinks = [:] }
            return state.sinks
        }
        for sink in sinks.values { sink.finish() }
    }
}

/// A subscription to events of one kind, read with `for await`.
///
/// A subscription ends with `cancel`, when it and its iterators are dropped, when a task that waits for an event is
/// cancelled, and when the coordinator stops or the client closes. The buffered events remain readable, unless the task
/// was cancelled. All iterators share the events: each event goes to one of them.
public struct EventSubscription<Element: Sendable>: AsyncSequence, Sendable {
    /// The sequence never throws.
    public typealias Failure = Never

    private let buffer: NewestBuffer<Element>
    private let registration: EventRegistration

    init(buffer: NewestBuffer<Element>, registration: EventRegistration) {
        self.buffer = buffer
        self.registration = registration
    }

    /// The maximum number of buffered events.
    public var capacity: Int { buffer.capacity }

    /// The number of events dropped because the subscriber did not read them in time.
    public var dropped: Int64 { buffer.dropped }

    /// Ends the subscription.
    public func cancel() {
        registration.end()
    }

    /// Creates another reader of this subscription. Each event goes to only one reader.
    public func makeAsyncIterator() -> Iterator {
        Iterator(subscription: self)
    }

    /// A reader of the subscription.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let subscription: EventSubscription

        /// Returns the next event as soon as there is one; `nil` once the subscription has ended.
        public mutating func next(isolation actor: isolated (any Actor)? = #isolation) async -> Element? {
            guard let element = await subscription.buffer.next() else {
                subscription.registration.end()
                return nil
            }
            return element
        }
    }
}

/// A registration of a subscriber. It ends with `end`, and when it is dropped.
package final class EventRegistration: Sendable {
    private let onEnd: @Sendable () -> Void

    /// Creates a registration.
    /// - Parameter onEnd: the handler of the end, which may run more than once and on any thread.
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

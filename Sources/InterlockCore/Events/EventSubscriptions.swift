internal import Synchronization

/// The subscriptions to the events of a coordinator or a client. Subscribing works on any thread and waits for no event
/// loop, so no event is missed between the call and its return.
package final class EventSubscriptions: Sendable {
    /// The destination of one subscription's events.
    private struct Sink: Sendable {
        /// Returns `false` if an older event was dropped.
        var push: @Sendable (SubscriptionMessage) -> Bool
        var finish: @Sendable () -> Void
    }

    private struct State {
        var sinks: [UInt64: Sink] = [:]
        var lastID: UInt64 = 0
        var isFinished = false
        /// The state of the connection; `nil` before anything has tried to connect.
        var connection: EventConnection?
        var onChange: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())
    private let onDrop: @Sendable () -> Void

    /// - Parameter onDrop: called for each event that was dropped because its subscriber was too slow.
    package init(onDrop: @escaping @Sendable () -> Void = {}) {
        self.onDrop = onDrop
    }

    package var count: Int { state.withLock { $0.sinks.count } }

    /// Calls `body` after each change of `count`, on any thread.
    package func whenCountChanges(_ body: @escaping @Sendable () -> Void) {
        state.withLock { $0.onChange = body }
    }

    /// Passes all messages, mapped by `select`, to `buffer`, beginning with the connection's state, until the
    /// registration ends or `finish` is called. The buffer is then finished.
    func add<Element: Sendable>(
        _ buffer: NewestBuffer<Element>, select: @escaping @Sendable (SubscriptionMessage) -> Element?
    ) -> EventRegistration {
        let sink = Sink(
            push: { message in select(message).map { buffer.push($0) } ?? true },
            finish: { buffer.finish() })
        let (id, onChange) = state.withLock { state -> (UInt64?, (@Sendable () -> Void)?) in
            guard !state.isFinished else { return (nil, nil) }
            if let connection = state.connection { _ = sink.push(.connection(connection)) }
            state.lastID += 1
            state.sinks[state.lastID] = sink
            return (state.lastID, state.onChange)
        }
        guard let id else {
            buffer.finish()
            return EventRegistration {}
        }
        onChange?()
        return EventRegistration { [self] in
            let onChange = state.withLock { $0.sinks.removeValue(forKey: id) == nil ? nil : $0.onChange }
            buffer.finish()
            onChange?()
        }
    }

    package func publish(_ message: SubscriptionMessage) {
        let sinks = state.withLock { $0.sinks }
        for sink in sinks.values where !sink.push(message) { onDrop() }
    }

    /// Records the state of the connection and publishes it. An interruption is published once, however many attempts
    /// to connect fail.
    /// - Parameter connection: the state; `nil` if no connection is needed.
    package func note(_ connection: EventConnection?) {
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
/// cancelled, and when the coordinator stops or the client closes. Buffered events can still be read afterwards, unless
/// the task was cancelled. Iterators share its events: each event goes to one of them.
public struct EventSubscription<Element: Sendable>: AsyncSequence, Sendable {
    /// The sequence never throws.
    public typealias Failure = Never

    private let buffer: NewestBuffer<Element>
    private let registration: EventRegistration

    init(buffer: NewestBuffer<Element>, registration: EventRegistration) {
        self.buffer = buffer
        self.registration = registration
    }

    /// The maximum number of events that are buffered.
    public var capacity: Int { buffer.capacity }

    /// The number of events that were dropped because they were not read in time.
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

    /// - Parameter onEnd: a handler that may be called more than once, on any thread.
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

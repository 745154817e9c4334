/// A subscription to events of one kind, read with `for await`.
///
/// It ends when it and its iterators are dropped, when a task that waits for its next event is cancelled, with `cancel`, and
/// when the coordinator stops; then what is kept can still be read, unless the task was cancelled. It never holds up
/// whoever publishes. Iterators share its events: each event goes to one of them.
public struct EventSubscription<Element: Sendable>: AsyncSequence, Sendable {
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

    public func makeAsyncIterator() -> Iterator {
        Iterator(subscription: self)
    }

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

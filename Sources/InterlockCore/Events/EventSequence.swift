/// Events of one kind, to be read with `for await`. Each iteration is a separate subscription.
///
/// A subscription begins when `makeAsyncIterator` or `subscribe` returns. It buffers the events that the coordinator or
/// the client receives from then on, up to its capacity.
public struct EventSequence<Element: Sendable>: AsyncSequence, Sendable {
    /// The sequence never throws.
    public typealias Failure = Never

    /// The default capacity of a subscription's buffer, in events.
    public static var defaultCapacity: Int { 256 }
    /// The valid capacities of a subscription's buffer, in events.
    public static var capacities: ClosedRange<Int> { 1...65_536 }

    private let subscriptions: EventSubscriptions
    private let select: @Sendable (SubscriptionMessage) -> Element?

    init(_ subscriptions: EventSubscriptions, select: @escaping @Sendable (SubscriptionMessage) -> Element?) {
        self.subscriptions = subscriptions
        self.select = select
    }

    /// Begins a subscription.
    /// - Parameter capacity: the number of events that the subscription buffers, clamped to `capacities`. When the
    ///   buffer is full, the subscription drops and counts the oldest event.
    public func subscribe(capacity: Int = defaultCapacity) -> EventSubscription<Element> {
        let range = Self.capacities
        let buffer = NewestBuffer<Element>(capacity: Swift.min(Swift.max(capacity, range.lowerBound), range.upperBound))
        return EventSubscription(buffer: buffer, registration: subscriptions.add(buffer, select: select))
    }

    /// Begins a subscription that adds its events to a buffer of other elements.
    package func subscribe<Signal: Sendable>(
        into buffer: NewestBuffer<Signal>, as signal: @escaping @Sendable (Element) -> Signal
    ) -> EventRegistration {
        subscriptions.add(buffer) { [select] in select($0).map(signal) }
    }

    /// Begins a subscription with the default capacity, and returns a reader of it.
    public func makeAsyncIterator() -> EventSubscription<Element>.Iterator {
        subscribe().makeAsyncIterator()
    }
}

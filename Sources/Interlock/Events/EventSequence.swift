/// Events of one kind, for `for await`: each iteration is a subscription of its own, which begins with it.
///
/// The subscription stands when `makeAsyncIterator` or `subscribe` has returned: every event that the coordinator hears of
/// after that is kept for it, up to its capacity. What happened before is not told.
public struct EventSequence<Element: Sendable>: AsyncSequence, Sendable {
    public typealias Failure = Never

    /// How many events are kept for a subscriber that says nothing else.
    public static var standardCapacity: Int { 256 }
    /// How many events may be kept for a subscriber.
    public static var capacities: ClosedRange<Int> { 1...65_536 }

    private let subscriptions: EventSubscriptions
    private let select: @Sendable (ReceivedEvent) -> Element?

    init(_ subscriptions: EventSubscriptions, select: @escaping @Sendable (ReceivedEvent) -> Element?) {
        self.subscriptions = subscriptions
        self.select = select
    }

    /// Begins a subscription.
    /// - Parameter capacity: how many events are kept for a subscriber that is slower than they come; then the oldest
    ///   are dropped, and counted. A number outside of 1…65,536 is taken for the nearest in it.
    public func subscribe(capacity: Int = standardCapacity) -> EventSubscription<Element> {
        let range = Self.capacities
        let buffer = NewestBuffer<Element>(capacity: Swift.min(Swift.max(capacity, range.lowerBound), range.upperBound))
        return EventSubscription(buffer: buffer, registration: subscriptions.add(buffer, select: select))
    }

    /// Begins a subscription whose events go where other things go as well.
    package func subscribe<Signal: Sendable>(
        into buffer: NewestBuffer<Signal>, as signal: @escaping @Sendable (Element) -> Signal
    ) -> EventRegistration {
        subscriptions.add(buffer) { [select] in select($0).map(signal) }
    }

    public func makeAsyncIterator() -> EventSubscription<Element>.Iterator {
        subscribe().makeAsyncIterator()
    }
}

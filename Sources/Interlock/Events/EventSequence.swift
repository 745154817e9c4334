internal import DequeModule
internal import NIOConcurrencyHelpers

/// Events of one kind, for `for await`: each iteration is a subscription of its own, which begins with it.
///
/// The subscription stands when `makeAsyncIterator` or `subscribe` has returned: every event that the coordinator hears of
/// after that is kept for it, up to its capacity. What happened before is not told.
public struct EventSequence<Element: Sendable>: AsyncSequence, Sendable {
    /// It never throws.
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

    /// Begins a subscription with the standard capacity, and reads it.
    public func makeAsyncIterator() -> EventSubscription<Element>.Iterator {
        subscribe().makeAsyncIterator()
    }
}

/// What one side has for another that may be slower: at most `capacity` elements, of which the oldest give way to the new.
///
/// Neither side holds up the other; each may be on any thread. Several consumers are served in turn.
package final class NewestBuffer<Element: Sendable>: Sendable {
    private struct State {
        var elements = Deque<Element>()
        var consumers = Deque<CheckedContinuation<Element?, Never>>()
        var dropped: Int64 = 0
        var isFinished = false
    }

    /// What becomes of an element that is added.
    private enum Addition {
        case kept
        case handedTo(CheckedContinuation<Element?, Never>)
        case keptForTheOldest
        case refused
    }

    package let capacity: Int
    private let state = NIOLockedValueBox(State())

    /// - Parameter capacity: how many elements are kept, at least one.
    package init(capacity: Int) {
        precondition(capacity > 0, "a buffer keeps something")
        self.capacity = capacity
    }

    /// How many elements had to give way so far.
    package var dropped: Int64 { state.withLockedValue { $0.dropped } }

    /// Adds an element; does nothing once it is finished.
    /// - Returns: `false`: the oldest element had to give way.
    @discardableResult
    package func push(_ element: Element) -> Bool {
        let addition = state.withLockedValue { state in
            if state.isFinished { return Addition.refused }
            if let consumer = state.consumers.popFirst() { return .handedTo(consumer) }
            state.elements.append(element)
            guard state.elements.count > capacity else { return .kept }
            state.elements.removeFirst()
            state.dropped += 1
            return .keptForTheOldest
        }
        switch addition {
        case .handedTo(let consumer): consumer.resume(returning: element)
        case .keptForTheOldest: return false
        case .kept, .refused: break
        }
        return true
    }

    /// Adds an element unless others are waiting to be read.
    package func pushIfEmpty(_ element: Element) {
        let consumer = state.withLockedValue { state -> CheckedContinuation<Element?, Never>? in
            guard !state.isFinished, state.elements.isEmpty else { return nil }
            if let consumer = state.consumers.popFirst() { return consumer }
            state.elements.append(element)
            return nil
        }
        consumer?.resume(returning: element)
    }

    /// Takes no more; what is kept can still be read.
    package func finish() {
        end(discarding: false)
    }

    /// Takes no more, and forgets what is kept.
    package func cancel() {
        end(discarding: true)
    }

    private func end(discarding: Bool) {
        let consumers = state.withLockedValue { state in
            state.isFinished = true
            if discarding { state.elements = [] }
            defer { state.consumers = [] }
            return state.consumers
        }
        for consumer in consumers { consumer.resume(returning: nil) }
    }

    /// The oldest element, as soon as there is one. Cancelling the task cancels the buffer.
    /// - Returns: `nil`: it is finished, and nothing is left.
    package func next() async -> Element? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { consumer in
                let element: Element?? = state.withLockedValue { state in
                    if let element = state.elements.popFirst() { return .some(element) }
                    if state.isFinished { return .some(nil) }
                    state.consumers.append(consumer)
                    return nil
                }
                if let element { consumer.resume(returning: element) }
            }
        } onCancel: {
            cancel()
        }
    }
}

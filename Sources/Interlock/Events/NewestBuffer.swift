internal import DequeModule
internal import NIOConcurrencyHelpers

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

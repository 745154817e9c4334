internal import DequeModule
internal import Synchronization

/// A buffer between a producer and a consumer that may be slower. When it is full, the oldest element is dropped.
///
/// Neither side blocks the other, on any thread. Waiting consumers receive elements in the order in which they began to
/// wait.
package final class NewestBuffer<Element: Sendable>: Sendable {
    private struct State {
        var elements = Deque<Element>()
        var consumers = Deque<CheckedContinuation<Element?, Never>>()
        var droppedCount: Int64 = 0
        var isFinished = false
    }

    /// The outcome of a push.
    private enum PushResult {
        case buffered
        case handedTo(CheckedContinuation<Element?, Never>)
        case bufferedDroppingOldest
        case refused
    }

    package let capacity: Int
    private let state = Mutex(State())

    /// Creates an empty buffer.
    /// - Parameter capacity: the maximum number of buffered elements, 1 or more.
    package init(capacity: Int) {
        precondition(capacity > 0, "a buffer needs a capacity of 1 or more")
        self.capacity = capacity
    }

    /// The number of elements dropped so far.
    package var dropped: Int64 { state.withLock { $0.droppedCount } }

    /// Adds an element; does nothing once the buffer is finished.
    /// - Returns: `false` if the oldest element was dropped.
    @discardableResult
    package func push(_ element: Element) -> Bool {
        let result = state.withLock { state in
            if state.isFinished { return PushResult.refused }
            if let consumer = state.consumers.popFirst() { return .handedTo(consumer) }
            state.elements.append(element)
            guard state.elements.count > capacity else { return .buffered }
            state.elements.removeFirst()
            state.droppedCount += 1
            return .bufferedDroppingOldest
        }
        switch result {
        case .handedTo(let consumer): consumer.resume(returning: element)
        case .bufferedDroppingOldest: return false
        case .buffered, .refused: break
        }
        return true
    }

    /// Adds an element unless the buffer holds another one.
    package func pushIfEmpty(_ element: Element) {
        let consumer = state.withLock { state -> CheckedContinuation<Element?, Never>? in
            guard !state.isFinished, state.elements.isEmpty else { return nil }
            if let consumer = state.consumers.popFirst() { return consumer }
            state.elements.append(element)
            return nil
        }
        consumer?.resume(returning: element)
    }

    /// Refuses further elements. The buffered elements remain readable.
    package func finish() {
        end(discarding: false)
    }

    /// Refuses further elements, and drops the buffered elements.
    package func cancel() {
        end(discarding: true)
    }

    private func end(discarding: Bool) {
        let consumers = state.withLock { state in
            state.isFinished = true
            if discarding { state.elements = [] }
            defer { state.consumers = [] }
            return state.consumers
        }
        for consumer in consumers { consumer.resume(returning: nil) }
    }

    /// Returns the oldest element as soon as there is one; `nil` once the buffer is finished and empty. Cancelling the
    /// task cancels the buffer.
    package func next() async -> Element? {
        await withTaskCancellationHandler {
            await withCheckedContinuation { consumer in
                let element: Element?? = state.withLock { state in
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

internal import InterlockCore
internal import RedisClient

/// The destination of an answer. One `deliver` closure serves all calls of a connection and distinguishes them by tag,
/// so that a call needs no allocation.
package struct Completion<Answer> {
    private let deliver: (_ tag: UInt64, _ answer: Answer) -> Bool
    private let tag: UInt64

    /// Creates a completion.
    /// - Parameter deliver: called once, on the coordinator's event loop, possibly before the call returns. It returns
    ///   whether the answer reached its caller; if not, a grant is released.
    package init(tag: UInt64 = 0, deliver: @escaping (_ tag: UInt64, _ answer: Answer) -> Bool) {
        self.tag = tag
        self.deliver = deliver
    }

    /// Returns a completion that passes each answer to `observer` before it delivers it.
    package func reported(to observer: @escaping (Answer) -> Void) -> Completion {
        Completion(tag: tag) { [deliver] tag, answer in
            observer(answer)
            return deliver(tag, answer)
        }
    }

    /// Delivers the answer. If several calls were made as one, `offset` selects the call, counted from the first.
    @discardableResult
    func callAsFunction(_ answer: Answer, offset: Int = 0) -> Bool {
        deliver(tag &+ UInt64(offset), answer)
    }
}

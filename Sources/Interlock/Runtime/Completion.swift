internal import InterlockCore
internal import RedisClient

/// Where an answer goes. One `deliver` serves all calls of a connection, which tells them apart by their tag: so a call
/// costs no allocation.
package struct Completion<Answer> {
    private let deliver: (_ tag: UInt64, _ answer: Answer) -> Bool
    private let tag: UInt64

    /// - Parameter deliver: called once, on the coordinator's event loop, possibly before the call returns. It says
    ///   whether the answer reached its caller: what was granted to somebody who has left is given back.
    package init(tag: UInt64 = 0, deliver: @escaping (_ tag: UInt64, _ answer: Answer) -> Bool) {
        self.tag = tag
        self.deliver = deliver
    }

    /// The same; `observer` is told of each answer before.
    package func told(to observer: @escaping (Answer) -> Void) -> Completion {
        Completion(tag: tag) { [deliver] tag, answer in
            observer(answer)
            return deliver(tag, answer)
        }
    }

    /// Delivers the answer; of several calls that were made as one, to the one `offset` tags further on.
    @discardableResult
    func callAsFunction(_ answer: Answer, offset: Int = 0) -> Bool {
        deliver(tag &+ UInt64(offset), answer)
    }
}

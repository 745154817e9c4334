/// Where an answer goes. One `deliver` serves all calls of a connection, which tells them apart by their tag: so a call
/// costs no allocation.
public struct Completion<Answer> {
    private let deliver: (_ tag: UInt64, _ answer: Answer) -> Bool
    private let tag: UInt64

    /// - Parameter deliver: called once, on the coordinator's event loop, possibly before the call returns. It says
    ///   whether the answer reached its caller: what was granted to somebody who has left is given back.
    public init(tag: UInt64 = 0, deliver: @escaping (_ tag: UInt64, _ answer: Answer) -> Bool) {
        self.tag = tag
        self.deliver = deliver
    }

    /// Delivers the answer; of several calls that were made as one, to the one `offset` tags further on.
    @discardableResult
    func callAsFunction(_ answer: Answer, offset: Int = 0) -> Bool {
        deliver(tag &+ UInt64(offset), answer)
    }
}

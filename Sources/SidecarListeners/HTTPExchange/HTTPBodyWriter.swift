internal import NIOCore

/// Writes the body of a response in parts.
package struct HTTPBodyWriter: Sendable {
    let responder: NIOLoopBound<HTTPResponder>
    let eventLoop: any EventLoop

    /// The error of a write after the client has left.
    struct Closed: Error {}

    /// Writes text, and waits until the client can accept more.
    /// - Throws: `Closed` if the client has left.
    func write(_ text: String) async throws {
        try await eventLoop.flatSubmit { [responder, eventLoop] in
            let completion = eventLoop.makePromise(of: Void.self)
            responder.value.write(ByteBuffer(string: text), completion)
            return completion.futureResult
        }.get()
    }
}

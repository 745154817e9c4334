internal import NIOCore

/// Writes the body of an answer in parts.
package struct HTTPBodyWriter: Sendable {
    let reply: NIOLoopBound<HTTPReply>
    let eventLoop: any EventLoop

    /// The error of a write after the client has left.
    struct Closed: Error {}

    /// Writes text, and waits until the client can take more.
    /// - Throws: if the client has left.
    func write(_ text: String) async throws {
        try await eventLoop.flatSubmit { [reply, eventLoop] in
            let done = eventLoop.makePromise(of: Void.self)
            reply.value.write(ByteBuffer(string: text), done)
            return done.futureResult
        }.get()
    }
}

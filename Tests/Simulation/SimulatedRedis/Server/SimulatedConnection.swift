/// A client's connection to a simulated server: bytes in, bytes out.
package final class SimulatedConnection {
    /// As `CLIENT ID` tells it: the server's first is 1.
    package let id: Int64
    /// Called when the server ends the connection: `QUIT`, a breach of the protocol, a restart.
    package var onClose: (() -> Void)?

    var name: Bytes = ""
    var tracking: TrackingTable.Options?
    /// Whether it listens to a channel or a pattern, and may send little else.
    var isSubscribed = false

    private unowned let server: SimulatedServer
    private let output: ([UInt8]) -> Void
    private var parser = RequestParser()
    /// Written, and not handed out yet.
    private var pending: [UInt8] = []
    private var state = State.open

    private enum State {
        case open
        /// Closed when what is pending was handed out.
        case ending
        case closed
    }

    init(id: Int64, server: SimulatedServer, output: @escaping ([UInt8]) -> Void) {
        self.id = id
        self.server = server
        self.output = output
    }

    /// Executes the commands that these bytes complete, in order, and hands out the replies in one piece. What this makes
    /// the server tell other connections is handed out to them afterwards.
    package func receive(_ bytes: [UInt8]) {
        guard state == .open else { return }
        parser.append(bytes)
        do throws(RequestParser.Violation) {
            while state == .open, let arguments = try parser.next() {
                push(server.execute(arguments, from: self))
                server.tellPendingInvalidations(to: self)
            }
        } catch {
            push(.error(Bytes("ERR Protocol error: \(error.text)")))
            state = .ending
        }
        server.flushOutput()
    }

    /// Executes one command.
    package func receive(_ words: String...) { receive(RequestEncoder.encode(words)) }

    /// The client is gone: its subscriptions end, and its reads are tracked no more.
    package func close() {
        guard state != .closed else { return }
        state = .closed
        pending = []
        server.forget(self)
    }

    /// Writes a reply or a message behind what was written before.
    func push(_ reply: Reply) {
        guard state != .closed else { return }
        if pending.isEmpty { server.hasOutput(self) }
        reply.write(to: &pending)
    }

    /// The command that runs is the last: its reply is handed out, and the connection ends.
    func closeAfterReply() {
        state = .ending
    }

    /// Hands out what is pending.
    func flush() {
        guard state != .closed else { return }
        let bytes = pending
        pending = []
        if !bytes.isEmpty { output(bytes) }
        if state == .ending { closeByServer() }
    }

    func closeByServer() {
        guard state != .closed else { return }
        close()
        onClose?()
    }
}

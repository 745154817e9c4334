/// A client's connection to a simulated server.
package final class SimulatedConnection {
    /// The number that `CLIENT ID` returns. The first connection of a server has number 1.
    package let id: Int64
    /// Runs when the server closes the connection: after `QUIT`, a protocol error or a restart.
    package var onClose: (() -> Void)?

    var name: Bytes = ""
    var tracking: TrackingTable.Options?
    /// Whether the connection has subscriptions, so that only a few commands are allowed.
    var isSubscribed = false
    /// Whether the client sent `ASKING`: the next command may access a hash slot that the server imports.
    var isAsking = false
    /// The server's replication offset after the last command.
    var offset: Int64 = 0
    /// The `WAIT` without a reply yet. Later commands wait for its reply.
    private(set) var replicaWait: ReplicaWait?

    struct ReplicaWait {
        /// The number of the `WAIT` on its server, which identifies its timeout.
        var number: UInt64
        /// The number of replicas to wait for.
        var replicas: Int64
        /// The offset that the replicas must acknowledge.
        var offset: Int64
    }

    /// The server, which `SimulatedServer.handOver` replaces.
    unowned var server: SimulatedServer
    private let output: ([UInt8]) -> Void
    private var parser = RequestParser()
    /// Output that was written but not sent yet.
    private var pendingOutput: [UInt8] = []
    private var state = State.open

    private enum State {
        case open
        /// Closes once all pending output is sent.
        case ending
        case closed
    }

    init(id: Int64, server: SimulatedServer, output: @escaping ([UInt8]) -> Void) {
        self.id = id
        self.server = server
        self.output = output
    }

    /// Executes the commands that these bytes complete, in order, and sends the replies in one piece. Then sends
    /// messages to other connections.
    package func receive(_ bytes: [UInt8]) {
        guard state == .open else { return }
        parser.append(bytes)
        executeReceivedCommands()
    }

    private func executeReceivedCommands() {
        do throws(RequestParser.Violation) {
            while state == .open, replicaWait == nil, let arguments = try parser.next() {
                push(server.execute(arguments, from: self))
                server.sendPendingInvalidations(to: self)
            }
        } catch {
            push(.error(Bytes("ERR Protocol error: \(error.text)")))
            state = .ending
        }
        server.flushOutput()
    }

    /// Executes one command.
    package func receive(_ words: String...) { receive(RequestEncoder.encode(words)) }

    /// Defers the reply to the running command.
    func wait(_ wait: ReplicaWait) { replicaWait = wait }

    /// Replies to the waiting command, then executes the commands that arrived in the meantime.
    func endWait(with reply: Reply) {
        guard replicaWait != nil else { return }
        replicaWait = nil
        push(reply)
        executeReceivedCommands()
    }

    /// Closes the connection for the client. Ends its subscriptions and its tracking.
    package func close() {
        guard state != .closed else { return }
        state = .closed
        pendingOutput = []
        replicaWait = nil
        server.forget(self)
    }

    /// Appends a reply or a message.
    func push(_ reply: Reply) {
        guard state != .closed else { return }
        if pendingOutput.isEmpty { server.scheduleFlush(self) }
        reply.write(to: &pendingOutput)
    }

    /// Closes the connection after the running command's reply.
    func closeAfterReply() {
        state = .ending
    }

    /// Sends the pending output.
    func flush() {
        guard state != .closed else { return }
        let bytes = pendingOutput
        pendingOutput = []
        if !bytes.isEmpty { output(bytes) }
        if state == .ending { closeByServer() }
    }

    func closeByServer() {
        guard state != .closed else { return }
        close()
        onClose?()
    }
}

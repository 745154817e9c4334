import InterlockCore
import InterlockJudge
import RedisClient

/// The base class of a world's clients. A client has a connection to a sidecar and replaces it when it is lost. It
/// makes one call at a time, and the history records the calls.
class ListenerClient {
    unowned let world: WorldState
    let number: Int
    /// The sidecars of the client's fleet.
    let sidecars: Range<Int>
    private(set) var sidecar: Int
    var random: SeededRandom
    let clientProtocol: ClientProtocol
    private var connection: (any ClientConnection)?
    /// The number of times that everything scheduled was cancelled.
    private var generation = 0

    /// Creates a client that speaks `clientProtocol`, or a version of RESP drawn from `random` if that is `nil`.
    init(world: WorldState, number: Int, sidecars: Range<Int>, random: SeededRandom, clientProtocol: ClientProtocol? = nil) {
        self.world = world
        self.number = number
        self.sidecars = sidecars
        self.random = random
        sidecar = Int.random(in: sidecars, using: &self.random)
        // The version is always drawn, so that the protocol changes nothing else about a client.
        let version: ClientProtocol = self.random.happens(0.4) ? .resp3 : .resp2
        self.clientProtocol = clientProtocol ?? version
    }

    /// Starts the client's next action. Does nothing by default.
    func act() {}
    /// Handles a push message.
    func receivedPush(_ parts: [RedisReply]) {}
    /// Handles the end of the connection, which also ends everything linked to it.
    func disconnected(byClient: Bool) {}

    func start() { pauseThenAct() }

    /// Pauses, then acts.
    func pauseThenAct() {
        schedule(after: .milliseconds(Int64.random(in: world.profile.pauseMilliseconds, using: &random))) { [self] in
            if !world.isClosing { act() }
        }
    }

    /// Runs `body` after this many nanoseconds, unless `cancelScheduled` is called first.
    func schedule(after nanoseconds: Int64, _ body: @escaping () -> Void) {
        let current = generation
        world.timeline.schedule(in: max(0, nanoseconds)) { [weak self] in
            guard let self, generation == current else { return }
            body()
        }
    }

    /// Cancels everything that was scheduled.
    func cancelScheduled() { generation += 1 }

    // MARK: Calls

    /// The connection, which may still be connecting.
    private var listener: any ClientConnection {
        if let connection, !connection.isClosed { return connection }
        if connection != nil { chooseSidecar() }
        let newConnection = connect()
        newConnection.onPush = { [weak self] in self?.receivedPush($0) }
        newConnection.onLost = { [weak self] in self?.disconnected(byClient: false) }
        connection = newConnection
        return newConnection
    }

    /// Chooses the sidecar of the next connection: usually the one on the same host, sometimes another one.
    func chooseSidecar() {
        if random.happens(0.3) { sidecar = Int.random(in: sidecars, using: &random) }
    }

    private func connect() -> any ClientConnection {
        let (host, path) = (world.sidecars[sidecar], world.listeners[sidecar])
        switch clientProtocol {
        case .resp2, .resp3:
            return ListenerConnection(to: host, over: path, timeline: world.timeline, speaksRESP3: clientProtocol == .resp3)
        case .http:
            return HTTPCommandConnection(to: host, over: path, timeline: world.timeline) { [weak self] in
                self?.complain(of: $0, from: host.number)
            }
        }
    }

    /// Reports an answer that the client's protocol does not allow.
    func complain(of problem: String, from sidecar: Int) {
        world.recordViolation(.answers, "client \(number) at sidecar \(sidecar): \(problem)")
    }

    /// Closes the connection, as when the process ends.
    func hangUp() {
        let former = connection
        connection = nil
        former?.close()
        disconnected(byClient: true)
    }

    /// Ends the process immediately. Another one replaces it after this many milliseconds.
    func die(forMilliseconds milliseconds: Int64) {
        hangUp()
        // Also cancels everything that calls scheduled when they ended.
        cancelScheduled()
        schedule(after: .milliseconds(milliseconds)) { [self] in pauseThenAct() }
    }

    /// Sends a command that the history does not record.
    func sendUnrecorded(_ words: [String], then done: @escaping (RedisReply?) -> Void = { _ in }) {
        listener.send(words) { done(try? $0.get()) }
    }

    /// Sends the commands of `body` in one write, surrounded by other commands that use up the client's time slice.
    func pipelined(_ body: () -> Void) {
        let listener = listener
        listener.sendTogether {
            ping(Int.random(in: 0...Self.maximumPings, using: &random), over: listener)
            body()
            ping(Int.random(in: 0...Self.maximumPings / 2, using: &random), over: listener)
        }
    }

    /// The maximum number of `PING` commands before a call in one write. A time slice suffices for about twenty.
    private static let maximumPings = 48
    private static let pingWord = "ping-"

    private func ping(_ count: Int, over listener: any ClientConnection) {
        for number in 0..<count {
            let word = "\(Self.pingWord)\(number)"
            listener.send(["PING", word]) { [weak listener] result in
                if case .success(let reply) = result, reply.text != word { listener?.giveUpOnReplies() }
            }
        }
    }

    /// Returns whether to send the next call among others in one write.
    func shouldPipeline() -> Bool { world.profile.pipelining > 0 && random.happens(world.profile.pipelining) }

    /// Whether the connection is open, so that commands are sent immediately.
    var isConnected: Bool { connection?.isOpen ?? false }

    /// Sends a command, and records its operations and their endings. A call for several locks is one operation per
    /// lock, each with its own client number. The ending is `endingOnClose` if the client closes the connection before
    /// the reply arrives. Calls `completion` once.
    func perform(
        _ operations: [(number: Int, operation: Operation)], _ words: [String],
        endingOnClose: String = OperationEnding.vanished,
        judge: @escaping (RedisReply) -> [OperationEnding],
        completion: @escaping ([OperationEnding]) -> Void
    ) {
        let listener = listener
        let sidecar = sidecar
        for (number, operation) in operations { world.record(.invoked(client: number, sidecar: sidecar, operation)) }
        let waitMilliseconds = operations.first?.operation.waitMilliseconds ?? 0
        var hasEnded = false
        func end(_ endings: [OperationEnding]) {
            guard !hasEnded else { return }
            hasEnded = true
            for ((number, _), ending) in zip(operations, endings) { world.record(.ended(client: number, ending)) }
            completion(endings)
        }
        func all(_ ending: OperationEnding) -> [OperationEnding] { operations.map { _ in ending } }
        listener.send(words) { [weak self] result in
            switch result {
            // The reply belongs to another command. The history's checkers detect calls that get no reply.
            case .success(let reply) where reply.text?.hasPrefix(Self.pingWord) ?? false: listener.giveUpOnReplies()
            case .success(.error(let error)):
                let word = error.message.prefix { $0 != " " }
                end(all(.failed(code: String(word))))
            case .success(let reply): end(judge(reply))
            case .failure(.notConnected): end(all(.failed(code: "not-connected")))
            // A connection that the client closed says nothing about the sidecar.
            case .failure(.responseLost):
                end(all(.unknown(reason: self?.connection === listener ? "answer-lost" : endingOnClose)))
            }
        }
        // The limit exceeds the rules' patience.
        world.timeline.schedule(in: .milliseconds(waitMilliseconds + WorldState.patienceMilliseconds + 1000)) {
            [weak self] in
            guard let self, !hasEnded else { return }
            end(all(.unknown(reason: "timed-out")))
            hangUp()
        }
    }
}

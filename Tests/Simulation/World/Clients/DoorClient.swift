import InterlockCore
import InterlockJudge
import RedisClient

/// The base of a world's clients: a connection to a sidecar that is replaced when it is lost, and one call at a time, which
/// the history records.
class DoorClient {
    unowned let world: WorldState
    let number: Int
    /// The sidecars of its fleet.
    let sidecars: Range<Int>
    private(set) var sidecar: Int
    var random: SeededRandom
    let speaks: ClientProtocol
    private var connection: (any ClientConnection)?
    /// Rises to cancel everything that was scheduled.
    private var era = 0

    /// - Parameter speaks: `nil`: a version of RESP, drawn from `random`.
    init(world: WorldState, number: Int, sidecars: Range<Int>, random: SeededRandom, speaks: ClientProtocol? = nil) {
        self.world = world
        self.number = number
        self.sidecars = sidecars
        self.random = random
        sidecar = Int.random(in: sidecars, using: &self.random)
        // Drawn in any case: the protocol changes nothing else about a client.
        let version: ClientProtocol = self.random.happens(0.4) ? .resp3 : .resp2
        self.speaks = speaks ?? version
    }

    /// Starts the next action.
    func act() {}
    /// A push arrived.
    func told(_ parts: [RedisReply]) {}
    /// The connection is gone, and everything linked to it ends.
    func disconnected(byItself: Bool) {}

    func start() { rest() }

    /// Pauses, then acts.
    func rest() {
        plan(after: .milliseconds(Int64.random(in: world.profile.pause, using: &random))) { [self] in
            if !world.isClosing { act() }
        }
    }

    /// Runs `body` later, unless `forgetPlans` comes first.
    func plan(after nanoseconds: Int64, _ body: @escaping () -> Void) {
        let now = era
        world.timeline.plan(in: max(0, nanoseconds)) { [weak self] in
            guard let self, era == now else { return }
            body()
        }
    }

    /// Cancels everything that was scheduled.
    func forgetPlans() { era += 1 }

    // MARK: Calls

    /// The connection, which may still be connecting.
    private var door: any ClientConnection {
        if let connection, !connection.isClosed { return connection }
        if connection != nil { moveOn() }
        let made = connect()
        made.onPush = { [weak self] in self?.told($0) }
        made.onLost = { [weak self] in self?.disconnected(byItself: false) }
        connection = made
        return made
    }

    /// Chooses the sidecar of the next connection: usually the one on the same host, sometimes another one.
    func moveOn() {
        if random.happens(0.3) { sidecar = Int.random(in: sidecars, using: &random) }
    }

    private func connect() -> any ClientConnection {
        let (host, path) = (world.sidecars[sidecar], world.doors[sidecar])
        switch speaks {
        case .resp2, .resp3:
            return DoorConnection(to: host, over: path, timeline: world.timeline, speaksRESP3: speaks == .resp3)
        case .http:
            return HTTPCommandConnection(to: host, over: path, timeline: world.timeline) { [weak self] in
                self?.complain(of: $0, from: host.number)
            }
        }
    }

    /// Reports an answer that its protocol does not allow.
    func complain(of words: String, from sidecar: Int) {
        world.find(.answers, "client \(number) at sidecar \(sidecar): \(words)")
    }

    /// Closes the connection, as when the process dies.
    func hangUp() {
        let gone = connection
        connection = nil
        gone?.close()
        disconnected(byItself: true)
    }

    /// The process dies, whatever it is doing. Another one takes its place after this many milliseconds.
    func die(for milliseconds: Int64) {
        hangUp()
        // Also cancels what the ends of its calls have scheduled.
        forgetPlans()
        plan(after: .milliseconds(milliseconds)) { [self] in rest() }
    }

    /// Sends a command that no promise covers.
    func tell(_ words: [String], then done: @escaping (RedisReply?) -> Void = { _ in }) {
        door.send(words) { done(try? $0.get()) }
    }

    /// Sends everything that `body` sends in one write, behind and before commands that use up the sidecar's time for one client.
    func pipelined(_ body: () -> Void) {
        let door = door
        door.sendTogether {
            ping(Int.random(in: 0...Self.mostPings, using: &random), over: door)
            body()
            ping(Int.random(in: 0...Self.mostPings / 2, using: &random), over: door)
        }
    }

    /// The most commands before a call in one write. A slice lasts for about twenty.
    private static let mostPings = 48
    private static let pingWord = "ping-"

    private func ping(_ count: Int, over door: any ClientConnection) {
        for number in 0..<count {
            let word = "\(Self.pingWord)\(number)"
            door.send(["PING", word]) { [weak door] result in
                if case .success(let reply) = result, reply.text != word { door?.giveUpOnReplies() }
            }
        }
    }

    /// Whether the next call is sent among others in one write.
    func pipelines() -> Bool { world.profile.pipelining > 0 && random.happens(world.profile.pipelining) }

    /// Whether what is sent now leaves at once.
    var isConnected: Bool { connection?.isOpen ?? false }

    /// Sends a command, and records the operations and their endings. `completion` is called once.
    /// - Parameters:
    ///   - operations: with their client numbers. A call for several locks is one operation for each.
    ///   - farewell: the ending if the client itself closes the connection meanwhile.
    func ask(
        _ operations: [(number: Int, operation: Operation)], _ words: [String],
        farewell: String = OperationEnding.vanished,
        judge: @escaping (RedisReply) -> [OperationEnding],
        completion: @escaping ([OperationEnding]) -> Void
    ) {
        let door = door
        let sidecar = sidecar
        for (number, operation) in operations { world.record(.invoked(client: number, sidecar: sidecar, operation)) }
        let wait = operations.first?.operation.wait ?? 0
        var isOver = false
        func end(_ endings: [OperationEnding]) {
            guard !isOver else { return }
            isOver = true
            for ((number, _), ending) in zip(operations, endings) { world.record(.ended(client: number, ending)) }
            completion(endings)
        }
        func all(_ ending: OperationEnding) -> [OperationEnding] { operations.map { _ in ending } }
        door.send(words) { [weak self] result in
            switch result {
            // A reply to another command. Calls that have no answer are found.
            case .success(let reply) where reply.text?.hasPrefix(Self.pingWord) ?? false: door.giveUpOnReplies()
            case .success(.error(let error)):
                let word = error.message.prefix { $0 != " " }
                end(all(.failed(code: String(word))))
            case .success(let reply): end(judge(reply))
            case .failure(.notConnected): end(all(.failed(code: "not-connected")))
            // A connection that the client closed says nothing about the sidecar.
            case .failure(.answerLost):
                end(all(.unknown(reason: self?.connection === door ? "answer-lost" : farewell)))
            }
        }
        // Longer than the rules' patience.
        world.timeline.plan(in: .milliseconds(wait + WorldState.patience + 1000)) { [weak self] in
            guard let self, !isOver else { return }
            end(all(.unknown(reason: "timed-out")))
            hangUp()
        }
    }
}

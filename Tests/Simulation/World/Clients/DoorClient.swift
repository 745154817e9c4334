import Hiredis
import InterlockCore
import InterlockJudge

/// What the clients of a world have in common: a connection to a sidecar's door that is made anew when it is lost, and one
/// thing to do at a time, which goes into the history.
class DoorClient {
    unowned let world: WorldState
    let number: Int
    /// The sidecars that it may ask: those of its fleet.
    let sidecars: Range<Int>
    private(set) var sidecar: Int
    var random: SeededRandom
    let speaksRESP3: Bool
    private var connection: DoorConnection?
    /// Rises whenever what was planned is to be forgotten.
    private var era = 0

    init(world: WorldState, number: Int, sidecars: Range<Int>, random: SeededRandom) {
        self.world = world
        self.number = number
        self.sidecars = sidecars
        self.random = random
        sidecar = Int.random(in: sidecars, using: &self.random)
        speaksRESP3 = self.random.happens(0.4)
    }

    /// What it does next, when it has nothing to do.
    func act() {}
    /// A push came.
    func told(_ parts: [RedisReply]) {}
    /// The connection is gone, closed by itself or not: what was linked to it ends.
    func disconnected(byItself: Bool) {}

    func start() { rest() }

    /// Does nothing for a while, then acts.
    func rest() {
        plan(after: .milliseconds(Int64.random(in: world.profile.pause, using: &random))) { [self] in
            if !world.isClosing { act() }
        }
    }

    /// Does it then, unless everything is forgotten before.
    func plan(after nanoseconds: Int64, _ body: @escaping () -> Void) {
        let now = era
        world.timeline.plan(in: max(0, nanoseconds)) { [weak self] in
            guard let self, era == now else { return }
            body()
        }
    }

    /// Forgets what was planned.
    func forgetPlans() { era += 1 }

    // MARK: Asking

    /// A connection that stands or is being made.
    private var door: DoorConnection {
        if let connection, !connection.isClosed { return connection }
        // Mostly the one beside it; after a loss sometimes another.
        if connection != nil, random.happens(0.3) { sidecar = Int.random(in: sidecars, using: &random) }
        let made = DoorConnection(
            to: world.sidecars[sidecar], over: world.doors[sidecar], timeline: world.timeline, speaksRESP3: speaksRESP3)
        made.onPush = { [weak self] in self?.told($0) }
        made.onLost = { [weak self] in self?.disconnected(byItself: false) }
        connection = made
        return made
    }

    /// Closes the connection, as when its process dies.
    func hangUp() {
        let gone = connection
        connection = nil
        gone?.close()
        disconnected(byItself: true)
    }

    /// Its process dies in the middle of whatever it does, and another takes its place after so many milliseconds.
    func die(for milliseconds: Int64) {
        hangUp()
        // Also what the ends of its calls have planned.
        forgetPlans()
        plan(after: .milliseconds(milliseconds)) { [self] in rest() }
    }

    /// Sends a command that no promise is about.
    func tell(_ words: [String], then done: @escaping (RedisReply?) -> Void = { _ in }) {
        door.send(words) { done(try? $0.get()) }
    }

    /// Sends a command and records what was asked and how it ended. `completion` is called once, with the end and the reply.
    /// - Parameters:
    ///   - operations: with the numbers under which they are recorded: a call for several things is one call for each.
    ///   - farewell: how it ended when the client itself closes the connection meanwhile.
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
            case .success(.error(let error)):
                let word = error.message.prefix { $0 != " " }
                end(all(.failed(code: String(word))))
            case .success(let reply): end(judge(reply))
            case .failure(.notConnected): end(all(.failed(code: "not-connected")))
            // Its own end says nothing of the sidecar.
            case .failure(.answerLost):
                end(all(.unknown(reason: self?.connection === door ? "answer-lost" : farewell)))
            }
        }
        // More patient than the rules are.
        world.timeline.plan(in: .milliseconds(wait + WorldState.patience + 1000)) { [weak self] in
            guard let self, !isOver else { return }
            end(all(.unknown(reason: "timed-out")))
            hangUp()
        }
    }
}

internal import InterlockCore
internal import Logging
internal import NIOCore
internal import RedisClient

/// The independent servers of a quorum: one connection to each, and the leftovers to clean up on servers that were
/// unreachable. Confined to the coordinator's event loop.
final class QuorumServers {
    typealias Server = QuorumRound.Server

    /// A token that may be stored in a lock although no lease relies on it.
    struct Leftover {
        var name: String
        var token: String
        /// The only kind of hold to release, so that a later lease of an owner that chose the token stays; `nil` for
        /// any.
        var only: QuorumReleaseScript.Hold?
        /// The time of its expiry.
        var until: Instant
    }

    private static let leftoverCapacity = 10_000
    /// The maximum number of renewals whose restores are yet to be checked. Renewals beyond that restore nothing; a
    /// later one may.
    static let restoreCheckCapacity = 10_000

    private let runtime: CoordinatorRuntime
    private let configurations: [RedisConfiguration]
    private let pipelines: [RedisPipeline]
    /// The names of the servers, without credentials.
    let names: [String]
    private var leftovers: [[Leftover]]
    /// The servers whose absence has been logged.
    private var missing: Set<Server> = []
    /// The renewals whose restores are yet to be checked.
    var pendingRestoreChecks = 0

    init(runtime: CoordinatorRuntime, configurations: [RedisConfiguration]) {
        self.runtime = runtime
        self.configurations = configurations.map {
            CoordinatorRuntime.named($0, id: runtime.id, prefix: runtime.keys.prefix)
                .withReplaceableSecrets(on: runtime.eventLoop)
        }
        pipelines = self.configurations.map { RedisPipeline(configuration: $0, environment: runtime.redisEnvironment) }
        names = configurations.map(\.displayName)
        leftovers = Array(repeating: [], count: configurations.count)
    }

    var count: Int { pipelines.count }
    var commandsSent: Int64 { pipelines.reduce(0) { $0 + $1.commandsSent } }
    var majority: Int { QuorumTally.majority(of: count) }
    /// The number of connected servers.
    var reachable: Int { pipelines.count(where: { $0.isUp }) }

    /// Returns whether a majority is connected, but no majority has fewer than `pendingCount` replies outstanding.
    /// Without a connected majority, calls fail immediately.
    func isBusy(from pendingCount: Int) -> Bool {
        reachable >= majority && pipelines.count(where: { $0.isUp && $0.pendingCount < pendingCount }) < majority
    }

    /// Starts connecting to all servers.
    func start() {
        for (server, pipeline) in pipelines.enumerated() {
            pipeline.onUp = { [unowned self] _ in serverConnected(server) }
            pipeline.onDown = { [unowned self] in serverDisconnected(server, $0) }
            pipeline.start()
        }
    }

    /// Makes new connections use the passwords and certificates of `new`, which has the servers in the same order.
    func replaceSecrets(by new: [RedisConfiguration]) {
        for (known, new) in zip(configurations, new) { known.replaceSecrets(by: new) }
    }

    /// Disconnects permanently. Pending commands fail.
    func close() -> EventLoopFuture<Void> {
        EventLoopFuture<Void>.andAllComplete(pipelines.map { $0.close() }, on: runtime.eventLoop)
    }

    private func serverConnected(_ server: Server) {
        missing.remove(server)
        runtime.logger.log(.quorumConnected, ["redis": names[server]])
        let now = runtime.time.now()
        let pending = leftovers[server].filter { $0.until > now }
        leftovers[server] = []
        for leftover in pending { free(leftover, on: server) }
    }

    private func serverDisconnected(_ server: Server, _ error: RedisError) {
        guard missing.insert(server).inserted else { return }
        runtime.logger.log(.quorumLost, ["redis": names[server], "error": "\(error)"])
    }

    // MARK: Commands

    /// Sends a script to one server. After `redis.timeout` it fails and the connection is dropped.
    func send<Script: ScriptCommand>(
        _ script: Script, to server: Server, completion: @escaping (Result<Script.Reply, RedisError>) -> Void
    ) {
        pipelines[server].send(script, completion: completion)
    }

    /// Runs a script on every server. `completion` gets the answers, by server, when all have arrived or the time is
    /// up; `nil` for a server that has not answered.
    func ask<Script: ScriptCommand>(
        _ script: Script, within milliseconds: Int64,
        completion: @escaping ([Result<Script.Reply, RedisError>?]) -> Void
    ) {
        ask(script, within: milliseconds, until: { _ in false }, completion: completion)
    }

    /// Runs a script on every server until `isEnough` accepts the answers, all have arrived or the time is up.
    private func ask<Script: ScriptCommand>(
        _ script: Script, within milliseconds: Int64,
        until isEnough: @escaping ([Result<Script.Reply, RedisError>?]) -> Bool,
        completion: @escaping ([Result<Script.Reply, RedisError>?]) -> Void
    ) {
        let question = QuorumQuestion<Script.Reply>(servers: count, isEnough: isEnough, completion: completion)
        let end = runtime.time.now().advanced(byMilliseconds: milliseconds)
        question.timeout = runtime.deadlines.schedule(at: end) { question.finish() }
        for server in 0..<count {
            send(script, to: server) { question.receive($0, from: server) }
        }
    }

    /// Runs a script with a yes-or-no reply on every server until a majority decides.
    func poll<Script: ScriptCommand>(
        _ script: Script, within milliseconds: Int64,
        completion: @escaping (_ verdict: QuorumTally.Verdict, _ answers: [Result<Bool, RedisError>?]) -> Void
    ) where Script.Reply == Bool {
        let servers = count
        func verdict(_ answers: [Result<Bool, RedisError>?], missing: QuorumTally.Answer?) -> QuorumTally.Verdict {
            var tally = QuorumTally(servers: servers)
            for answer in answers {
                switch answer {
                case .success(let isYes)?: tally.count(isYes ? .yes : .no)
                case .failure?: tally.count(.failed)
                case nil: if let missing { tally.count(missing) }
                }
            }
            return tally.verdict
        }
        ask(
            script, within: milliseconds, until: { verdict($0, missing: nil) != .open },
            completion: { completion(verdict($0, missing: .failed), $0) })
    }

    /// Runs one `SCAN` step on `server`, or on the first connected one to begin a scan.
    func scan(_ scan: Scan, on server: Server?, completion: @escaping (Server, Result<Scan.Reply, RedisError>) -> Void) {
        let target = server ?? pipelines.firstIndex(where: { $0.isUp }) ?? 0
        pipelines[target].send(scan) { completion(target, $0) }
    }

    // MARK: Cleanup

    /// Releases a lock on one server, now or when the server is back.
    func free(_ leftover: Leftover, on server: Server) {
        let script = QuorumReleaseScript(
            keys: runtime.keys, name: leftover.name, token: leftover.token, only: leftover.only)
        send(script, to: server) { [weak self] result in
            guard let self, case .failure = result else { return }
            if self.leftovers[server].count < Self.leftoverCapacity { self.leftovers[server].append(leftover) }
        }
    }

    /// Creates the error for a call that no majority has answered.
    func unavailable(because failure: (server: Server, error: RedisError)?) -> InterlockError {
        let cause = failure.map { "\(names[$0.server]): \($0.error.message)" } ?? "they did not answer in time"
        return InterlockError(.unavailable, "no majority of the \(count) Redis servers could be reached: \(cause)")
    }

    /// Creates the same error from the answers to a question.
    func unavailable<Reply>(_ answers: [Result<Reply, RedisError>?]) -> InterlockError {
        for (server, answer) in answers.enumerated() {
            if case .failure(let error)? = answer { return unavailable(because: (server, error)) }
        }
        return unavailable(because: nil)
    }
}

/// One question to all servers.
private final class QuorumQuestion<Reply> {
    typealias Answers = [Result<Reply, RedisError>?]

    private var answers: Answers
    private var open: Int
    private let isEnough: (Answers) -> Bool
    private var completion: ((Answers) -> Void)?
    var timeout: Deadlines.Entry?

    init(servers: Int, isEnough: @escaping (Answers) -> Bool, completion: @escaping (Answers) -> Void) {
        answers = Array(repeating: nil, count: servers)
        open = servers
        self.isEnough = isEnough
        self.completion = completion
    }

    func receive(_ answer: Result<Reply, RedisError>, from server: QuorumRound.Server) {
        guard completion != nil else { return }
        answers[server] = answer
        open -= 1
        if open == 0 || isEnough(answers) { finish() }
    }

    func finish() {
        guard let completion else { return }
        self.completion = nil
        timeout?.cancel()
        timeout = nil
        completion(answers)
    }
}

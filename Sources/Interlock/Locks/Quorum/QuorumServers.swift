internal import InterlockCore
internal import Logging
internal import NIOCore
internal import RedisClient

/// The independent servers of a quorum, with one connection to each, and the leftovers to clean up on servers that were
/// unreachable. Confined to the coordinator's event loop.
final class QuorumServers {
    typealias Server = QuorumRound.Server

    /// A token that a lock may still contain although no lease relies on it.
    struct Leftover {
        var name: String
        var token: String
        /// The only kind of hold to release, so that a later lease of an owner that chose the token stays; `nil` for
        /// any kind.
        var only: QuorumReleaseScript.Hold?
        /// The time at which the token expires.
        var until: Instant
    }

    private static let leftoverCapacity = 10_000
    /// The maximum number of renewals whose restores are yet to be checked. Further renewals restore nothing, which a
    /// later renewal may do.
    static let restoreCheckCapacity = 10_000

    private let runtime: CoordinatorRuntime
    private let configurations: [RedisConfiguration]
    private let pipelines: [RedisPipeline]
    /// The names of the servers, without credentials.
    let names: [String]
    private var leftovers: [[Leftover]]
    /// The servers whose failure was logged.
    private var downServers: Set<Server> = []
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
    var commandsSent: Int64 { pipelines.reduce(0) { $0 + $1.sentCommandCount } }
    var majority: Int { QuorumTally.majority(of: count) }
    /// The number of connected servers.
    var reachableCount: Int { pipelines.count(where: { $0.isUp }) }

    /// Returns whether a majority is connected but too many of its servers owe `pendingCount` replies or more. Without
    /// a connected majority, calls fail immediately, so the quorum is not busy.
    func isBusy(from pendingCount: Int) -> Bool {
        reachableCount >= majority && pipelines.count(where: { $0.isUp && $0.pendingCount < pendingCount }) < majority
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
        for (configuration, new) in zip(configurations, new) { configuration.replaceSecrets(by: new) }
    }

    /// Disconnects permanently. Pending commands fail.
    func close() -> EventLoopFuture<Void> {
        EventLoopFuture<Void>.andAllComplete(pipelines.map { $0.close() }, on: runtime.eventLoop)
    }

    private func serverConnected(_ server: Server) {
        downServers.remove(server)
        runtime.logger.log(.quorumConnected, ["redis": names[server]])
        let now = runtime.time.now()
        let pending = leftovers[server].filter { $0.until > now }
        leftovers[server] = []
        for leftover in pending { free(leftover, on: server) }
    }

    private func serverDisconnected(_ server: Server, _ error: RedisError) {
        guard downServers.insert(server).inserted else { return }
        runtime.logger.log(.quorumLost, ["redis": names[server], "error": "\(error)"])
    }

    // MARK: Commands

    /// Sends a script to one server. After `redis.timeout`, the script fails and the connection is dropped.
    func send<Script: ScriptCommand>(
        _ script: Script, to server: Server, completion: @escaping (Result<Script.Reply, RedisError>) -> Void
    ) {
        pipelines[server].send(script, completion: completion)
    }

    /// Runs a script on every server. Calls `completion` with the answers, by server, when all have arrived or the time
    /// is up. The answer is `nil` for a server that has not answered.
    func ask<Script: ScriptCommand>(
        _ script: Script, withinMilliseconds milliseconds: Int64,
        completion: @escaping ([Result<Script.Reply, RedisError>?]) -> Void
    ) {
        ask(script, withinMilliseconds: milliseconds, until: { _ in false }, completion: completion)
    }

    /// Runs a script on every server until `isEnough` accepts the answers, all have arrived or the time is up.
    private func ask<Script: ScriptCommand>(
        _ script: Script, withinMilliseconds milliseconds: Int64,
        until isEnough: @escaping ([Result<Script.Reply, RedisError>?]) -> Bool,
        completion: @escaping ([Result<Script.Reply, RedisError>?]) -> Void
    ) {
        let question = QuorumQuestion<Script.Reply>(serverCount: count, isEnough: isEnough, completion: completion)
        let deadline = runtime.time.now().advanced(byMilliseconds: milliseconds)
        question.timeout = runtime.deadlines.schedule(at: deadline) { question.finish() }
        for server in 0..<count {
            send(script, to: server) { question.receive($0, from: server) }
        }
    }

    /// Runs a script with a yes-or-no reply on every server until a majority decides.
    func poll<Script: ScriptCommand>(
        _ script: Script, withinMilliseconds milliseconds: Int64,
        completion: @escaping (_ verdict: QuorumTally.Verdict, _ answers: [Result<Bool, RedisError>?]) -> Void
    ) where Script.Reply == Bool {
        let serverCount = count
        func verdict(_ answers: [Result<Bool, RedisError>?], missing: QuorumTally.Answer?) -> QuorumTally.Verdict {
            var tally = QuorumTally(servers: serverCount)
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
            script, withinMilliseconds: milliseconds, until: { verdict($0, missing: nil) != .open },
            completion: { completion(verdict($0, missing: .failed), $0) })
    }

    /// Runs one `SCAN` step on `server`, or on the first connected one to begin a scan.
    func scan(_ scan: Scan, on server: Server?, completion: @escaping (Server, Result<Scan.Reply, RedisError>) -> Void) {
        let target = server ?? pipelines.firstIndex(where: { $0.isUp }) ?? 0
        pipelines[target].send(scan) { completion(target, $0) }
    }

    // MARK: Cleanup

    /// Releases a lock on one server, now or when the server is connected again.
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
        return InterlockError(.unavailable, "could not reach a majority of the \(count) Redis servers: \(cause)")
    }

    /// Creates the error for a call that no majority has answered, from the answers.
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
    private var unansweredCount: Int
    private let isEnough: (Answers) -> Bool
    private var completion: ((Answers) -> Void)?
    var timeout: Deadlines.Entry?

    init(serverCount: Int, isEnough: @escaping (Answers) -> Bool, completion: @escaping (Answers) -> Void) {
        answers = Array(repeating: nil, count: serverCount)
        unansweredCount = serverCount
        self.isEnough = isEnough
        self.completion = completion
    }

    func receive(_ answer: Result<Reply, RedisError>, from server: QuorumRound.Server) {
        guard completion != nil else { return }
        answers[server] = answer
        unansweredCount -= 1
        if unansweredCount == 0 || isEnough(answers) { finish() }
    }

    func finish() {
        guard let completion else { return }
        self.completion = nil
        timeout?.cancel()
        timeout = nil
        completion(answers)
    }
}

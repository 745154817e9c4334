internal import InterlockCore
internal import RedisClient

/// Makes one attempt to acquire a lock: asks the servers, passes their votes to `QuorumRound` and performs its actions.
/// Confined to the coordinator's event loop.
final class QuorumAttempt {
    /// The requested lease.
    struct Request {
        var name: String
        var token: String
        var ttlMilliseconds: Int64
        /// Whether the owner chose the token. It may then request the same lease again, here or elsewhere.
        var hasOwnerToken: Bool
        var candidate: QuorumAcquireScript.Candidate
    }

    enum Outcome {
        case granted(fence: Int64, validMilliseconds: Int64)
        case held
        /// Concurrent attempts collided, and perhaps no attempt won. Another attempt after a pause may succeed.
        case contended
        case unavailable(InterlockError)
    }

    let request: Request
    private let runtime: CoordinatorRuntime
    private let servers: QuorumServers
    private let scripts: LockScripts
    private var round: QuorumRound
    /// For each server, whether the token may be stored there.
    private var mayHold: [Bool]
    /// For each server, the number in its vote.
    private var foundNumbers: [Int64]
    private var firstFailure: (server: QuorumServers.Server, error: RedisError)?
    private var isAbandoned = false
    private var timer: Deadlines.Entry?
    private var completion: ((QuorumAttempt, Outcome) -> Void)?

    /// Creates an attempt, inactive until `start`.
    /// - Parameter completion: called once, possibly before `start` returns.
    init(
        _ request: Request, servers: QuorumServers, scripts: LockScripts, runtime: CoordinatorRuntime,
        completion: @escaping (QuorumAttempt, Outcome) -> Void
    ) {
        self.request = request
        self.servers = servers
        self.scripts = scripts
        self.runtime = runtime
        self.completion = completion
        round = QuorumRound(
            servers: servers.count, ttlMilliseconds: request.ttlMilliseconds, startedAt: runtime.time.now(),
            awaitsEveryAnswer: request.hasOwnerToken)
        mayHold = Array(repeating: false, count: servers.count)
        foundNumbers = Array(repeating: 0, count: servers.count)
    }

    func start() {
        armTimer()
        let script = QuorumAcquireScript(
            script: scripts.quorumAcquire, keys: runtime.keys, name: request.name, token: request.token,
            ttlMilliseconds: request.ttlMilliseconds,
            candidate: request.candidate)
        for server in 0..<servers.count {
            // A server that is down fails immediately, which may already decide the round.
            guard !round.isGivenUp else { return }
            mayHold[server] = true
            servers.send(script, to: server) { [self] in serverAnswered($0, by: server) }
        }
    }

    /// Releases the lease because its caller has left. If the owner chose the token, keeps the lease, because a retry
    /// may already hold it.
    func abandon() {
        guard !request.hasOwnerToken else { return }
        isAbandoned = true
        freeEverywhere()
    }

    private func serverAnswered(_ result: Result<QuorumRound.Vote, RedisError>, by server: QuorumServers.Server) {
        switch result {
        case .success(let vote):
            switch vote {
            case .granted(let number), .renewed(let number): foundNumbers[server] = number
            case .held: mayHold[server] = false
            case .failed: break
            }
            perform(round.vote(vote, by: server, now: runtime.time.now()))
        case .failure(let error):
            if firstFailure == nil { firstFailure = (server, error) }
            if !error.isOutcomeUnknown {
                mayHold[server] = false
            } else if round.isGivenUp {
                free(on: server)
            }
            perform(round.vote(.failed, by: server, now: runtime.time.now()))
        }
    }

    private func perform(_ action: QuorumRound.Action) {
        switch action {
        case .none:
            break
        case .writeFence(let fence, let holdingServers):
            if completion != nil { armTimer() }
            for server in holdingServers { write(fence, on: server) }
        case .granted(let fence, let validMilliseconds):
            finish(.granted(fence: fence, validMilliseconds: validMilliseconds))
        case .giveUp(.held):
            freeEverywhere()
            finish(.held)
        case .giveUp(.contended):
            freeEverywhere()
            finish(.contended)
        case .giveUp(.unavailable):
            freeEverywhere()
            finish(.unavailable(servers.unavailable(because: firstFailure)))
        case .release(let server):
            free(on: server)
        }
    }

    private func write(_ fence: Int64, on server: QuorumServers.Server) {
        guard !isAbandoned else { return free(on: server) }
        let script = QuorumFenceScript(
            script: scripts.quorumFence, keys: runtime.keys, name: request.name, token: request.token, fence: fence,
            ttlMilliseconds: request.ttlMilliseconds, foundNumber: foundNumbers[server])
        servers.send(script, to: server) { [self] result in
            var isRecorded = false
            switch result {
            case .success(.recorded): isRecorded = true
            case .success: break
            case .failure(let error): if firstFailure == nil { firstFailure = (server, error) }
            }
            perform(round.fenceRecorded(isRecorded, by: server, now: runtime.time.now()))
        }
    }

    private func finish(_ outcome: Outcome) {
        timer?.cancel()
        timer = nil
        guard let completion else { return }
        self.completion = nil
        completion(self, outcome)
    }

    /// Starts the timeout of the current round of requests.
    private func armTimer() {
        timer?.cancel()
        let timeoutMilliseconds = QuorumRetry.timeoutMilliseconds(
            ttlMilliseconds: request.ttlMilliseconds, maximumMilliseconds: runtime.timeoutMilliseconds)
        let deadline = runtime.time.now().advanced(byMilliseconds: timeoutMilliseconds)
        timer = runtime.deadlines.schedule(at: deadline) { [self] in
            perform(round.timedOut(now: runtime.time.now()))
        }
    }

    /// Releases the token on every server where it may be stored.
    private func freeEverywhere() {
        for server in 0..<servers.count where mayHold[server] { free(on: server) }
    }

    private func free(on server: QuorumServers.Server) {
        let until = runtime.time.now().advanced(byMilliseconds: request.ttlMilliseconds)
        servers.free(
            QuorumServers.Leftover(
                name: request.name, token: request.token, only: request.hasOwnerToken ? .unrecorded : nil, until: until),
            on: server)
    }
}

/// One renewal of a lease on a majority of independent Redis servers: a state machine that takes answers one by one and
/// returns the renewal's result and the servers to restore.
///
/// A server that came back empty has lost the lease and would grant the lock again. A renewal restores the lease on it,
/// so that a rolling restart never leaves the lease on fewer servers than a majority:
///
/// - only after a majority has renewed the lease in this round, and within the validity that the round gives. A restore
///   adds to a majority and never creates one, and an expired lease is not restored;
/// - only into a free lock: `quorum-fence.lua` decides on the server, and not later than this round may take;
/// - with a fence that is not below the lease's. The servers that renewed it are a majority, so one of them is among
///   those that recorded the lease's fence before it was handed out, and the highest number recorded among them is that
///   fence or higher. So the servers that record at least the lease's fence remain a majority, and every later grant
///   gets a higher one. If the caller or a majority names the fence, a server with a higher number records the named
///   one instead, because a later renewal that names the fence would not find the lease there otherwise.
package struct QuorumRenewal: Sendable {
    package typealias Server = QuorumRound.Server

    /// The lock's number on a server and the server's time when it answered the renewal.
    package struct Observation: Equatable, Sendable {
        /// The number; 0 if there is none.
        package var number: Int64
        package var timeMilliseconds: Int64

        package init(number: Int64, timeMilliseconds: Int64) {
            self.number = number
            self.timeMilliseconds = timeMilliseconds
        }
    }

    /// The answer of a server.
    package enum Vote: Equatable, Sendable {
        case renewed(Observation)
        /// The lock has another token or none.
        case missing(Observation)
        /// The server is unreachable, or its answer is an error.
        case failed
    }

    package enum Answer: Equatable, Sendable {
        case renewed(validMilliseconds: Int64)
        /// A majority renewed the lease, but no validity is left.
        case tooLate
        case lost
        case unavailable
    }

    /// A server on which to restore the lease or its fence.
    package struct Restore: Equatable, Sendable {
        package var server: Server
        package var fence: Int64
        package var found: Observation
        /// The time after `found` within which the server may still execute the restore, in milliseconds.
        package var windowMilliseconds: Int64

        package init(server: Server, fence: Int64, found: Observation, windowMilliseconds: Int64) {
            self.server = server
            self.fence = fence
            self.found = found
            self.windowMilliseconds = windowMilliseconds
        }
    }

    /// The caller's next step.
    package struct Step: Equatable, Sendable {
        package var answer: Answer?
        package var restores: [Restore]

        package init(answer: Answer? = nil, restores: [Restore] = []) {
            self.answer = answer
            self.restores = restores
        }
    }

    private enum Phase: Equatable, Sendable {
        case collecting
        /// `fence` is the number for servers that have lost the lease to record; `nil` if no server knows it. It is
        /// certain if the caller or a majority names it.
        case renewed(fence: Int64?, isCertain: Bool)
        case ended
    }

    private let ttl: Int64
    private let startedAt: Instant
    private let timeout: Int64
    private var votes: [Vote?]
    private var phase = Phase.collecting
    private let fence: Int64?

    /// - Parameters:
    ///   - fence: the fence of the only lease to renew; `nil` for the lease that the token has.
    ///   - ttl: the lease's new length in milliseconds.
    ///   - startedAt: a time before the first request was sent.
    ///   - timeout: the time that the servers have to answer, in milliseconds.
    package init(servers: Int, ttl: Int64, fence: Int64? = nil, startedAt: Instant, timeout: Int64) {
        self.ttl = ttl
        self.fence = fence
        self.startedAt = startedAt
        self.timeout = timeout
        votes = Array(repeating: nil, count: servers)
    }

    /// Records a server's answer, even after the renewal is decided.
    package mutating func vote(_ vote: Vote, by server: Server, now: Instant) -> Step {
        guard votes[server] == nil else { return Step() }
        votes[server] = vote
        switch phase {
        case .collecting: return evaluate(awaitsMore: true, now: now)
        case .renewed: return Step(restores: restores(on: [server], now: now))
        case .ended: return Step()
        }
    }

    /// Ends the wait for servers that have not answered.
    package mutating func timedOut(now: Instant) -> Step {
        phase == .collecting ? evaluate(awaitsMore: false, now: now) : Step()
    }

    /// Returns whether the lease can still be relied on within this round's time.
    package func mayRestore(now: Instant) -> Bool {
        window(now: now) > 0
    }

    // MARK: Deciding

    private mutating func evaluate(awaitsMore: Bool, now: Instant) -> Step {
        let answers: [QuorumTally.Answer] = votes.compactMap { vote in
            switch vote {
            case .renewed?: .yes
            case .missing?: .no
            case .failed?: .failed
            case nil: awaitsMore ? nil : .failed
            }
        }
        switch QuorumTally(servers: votes.count, answers: answers).verdict {
        case .open:
            return Step()
        case .yes:
            let valid = LeaseValidity.remaining(ttl: ttl, sentAt: startedAt, now: now)
            guard valid > 0 else { return end(.tooLate) }
            let certain = fence ?? agreedFence
            phase = .renewed(fence: certain ?? recordedFences.max(), isCertain: certain != nil)
            return Step(answer: .renewed(validMilliseconds: valid), restores: restores(on: votes.indices, now: now))
        case .no:
            return end(.lost)
        case .unknown:
            return end(.unavailable)
        }
    }

    private mutating func end(_ answer: Answer) -> Step {
        phase = .ended
        return Step(answer: answer)
    }

    /// The fences on the servers that renewed the lease.
    private var recordedFences: [Int64] {
        votes.compactMap { vote in
            if case .renewed(let found)? = vote, QuorumRound.isRecorded(found.number) { found.number } else { nil }
        }
    }

    private var agreedFence: Int64? { QuorumRound.agreedFence(among: recordedFences, servers: votes.count) }

    private func restores(on servers: some Sequence<Server>, now: Instant) -> [Restore] {
        guard case .renewed(let fence?, let isCertain) = phase else { return [] }
        let window = window(now: now)
        guard window > 0 else { return [] }
        return servers.compactMap { server in
            switch votes[server] {
            case .missing(let found)?:
                return Restore(server: server, fence: fence, found: found, windowMilliseconds: window)
            // The lease exists there, but its fence has not arrived, or a higher number has replaced it.
            case .renewed(let found)? where !QuorumRound.isRecorded(found.number) || isCertain && found.number != fence:
                return Restore(server: server, fence: fence, found: found, windowMilliseconds: window)
            default:
                return nil
            }
        }
    }

    /// Returns the time that a restore may take from `now`, in milliseconds.
    private func window(now: Instant) -> Int64 {
        let valid = LeaseValidity.remaining(ttl: ttl, sentAt: startedAt, now: now)
        let roundEnd = startedAt.advanced(byMilliseconds: 2 * timeout)
        return min(timeout, valid, (roundEnd.nanoseconds - now.nanoseconds) / 1_000_000)
    }
}

/// One renewal of a lease on a majority of independent Redis servers: a state machine that takes the servers' answers
/// one by one and returns the result of the renewal and the servers on which to restore the lease.
///
/// A server that came back empty has lost the lease and would grant the lock again. A renewal restores the lease on it,
/// so that a rolling restart never leaves the lease on fewer servers than a majority:
///
/// - only after a majority has renewed the lease in this round, and within the validity that the round gives. A restore
///   adds to a majority and never creates one, and it never revives an expired lease;
/// - only into a free lock, as `quorum-fence.lua` decides on the server, and only within the time that this round may
///   take;
/// - with a fence that is not below the lease's. The servers that renewed the lease are a majority. One of them
///   recorded the lease's fence before the caller received the lease, so the highest number recorded among them is that
///   fence or higher. The servers that record at least the lease's fence therefore remain a majority, and every later
///   grant gets a higher fence. If the caller or a majority names the fence, a server with a higher number records the
///   named fence instead. Otherwise a later renewal that names the fence would not find the lease on that server.
package struct QuorumRenewal: Sendable {
    package typealias Server = QuorumRound.Server

    /// The lock's number on a server, and the time by the server's clock when it replied to the renewal.
    package struct Observation: Equatable, Sendable {
        /// The lock's number, recorded or minted; 0 if the server has no number.
        package var number: Int64
        /// The server's time, as Unix time in milliseconds.
        package var timeMilliseconds: Int64

        package init(number: Int64, timeMilliseconds: Int64) {
            self.number = number
            self.timeMilliseconds = timeMilliseconds
        }
    }

    /// The answer of a server.
    package enum Vote: Equatable, Sendable {
        case renewed(Observation)
        /// The lock is free or holds another token.
        case missing(Observation)
        /// The server is unreachable, or replied with an error.
        case failed
    }

    /// The result of the renewal.
    package enum Answer: Equatable, Sendable {
        case renewed(validMilliseconds: Int64)
        /// A majority renewed the lease, but no validity is left.
        case tooLate
        /// The lease is missing on so many servers that a majority is impossible.
        case lost
        /// Too few servers replied.
        case unavailable
    }

    /// A server on which to restore the lease or its fence.
    package struct Restore: Equatable, Sendable {
        package var server: Server
        package var fence: Int64
        /// The server's reply to the renewal.
        package var found: Observation
        /// The time after `found`, in milliseconds, within which the server may execute the restore.
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
        /// The result; `nil` if the renewal is undecided or the result was returned before.
        package var result: Answer?
        package var restores: [Restore]

        package init(result: Answer? = nil, restores: [Restore] = []) {
            self.result = result
            self.restores = restores
        }
    }

    private enum Phase: Equatable, Sendable {
        case collecting
        /// A majority renewed the lease. `fence` is the number that a restore records; `nil` if no server knows it. It
        /// is certain if the caller or a majority names it.
        case renewed(fence: Int64?, isCertain: Bool)
        case ended
    }

    private let ttlMilliseconds: Int64
    private let startedAt: Instant
    private let timeoutMilliseconds: Int64
    private var votes: [Vote?]
    private var phase = Phase.collecting
    private let fence: Int64?

    /// Begins a renewal.
    /// - Parameters:
    ///   - servers: the number of servers.
    ///   - ttlMilliseconds: the lease's new TTL in milliseconds.
    ///   - fence: the fence of the only lease to renew; `nil` for any lease of the token.
    ///   - startedAt: a time before the first request was sent.
    ///   - timeoutMilliseconds: the time that the servers have to reply, in milliseconds.
    package init(
        servers: Int, ttlMilliseconds: Int64, fence: Int64? = nil, startedAt: Instant,
        timeoutMilliseconds: Int64
    ) {
        self.ttlMilliseconds = ttlMilliseconds
        self.fence = fence
        self.startedAt = startedAt
        self.timeoutMilliseconds = timeoutMilliseconds
        votes = Array(repeating: nil, count: servers)
    }

    /// Records a server's answer, even after the result is known.
    package mutating func vote(_ vote: Vote, by server: Server, now: Instant) -> Step {
        guard votes[server] == nil else { return Step() }
        votes[server] = vote
        switch phase {
        case .collecting: return evaluate(awaitsMore: true, now: now)
        case .renewed: return Step(restores: restores(on: [server], now: now))
        case .ended: return Step()
        }
    }

    /// Ends the wait for servers that have not replied.
    package mutating func timedOut(now: Instant) -> Step {
        phase == .collecting ? evaluate(awaitsMore: false, now: now) : Step()
    }

    /// Returns whether a restore may still begin: the lease is valid, and the time of this round is not over.
    package func mayRestore(now: Instant) -> Bool {
        restoreMilliseconds(now: now) > 0
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
            let validMilliseconds = LeaseValidity.remainingMilliseconds(
                ttlMilliseconds: ttlMilliseconds, sentAt: startedAt, now: now)
            guard validMilliseconds > 0 else { return end(.tooLate) }
            let certainFence = fence ?? agreedFence
            phase = .renewed(fence: certainFence ?? recordedFences.max(), isCertain: certainFence != nil)
            return Step(
                result: .renewed(validMilliseconds: validMilliseconds), restores: restores(on: votes.indices, now: now))
        case .no:
            return end(.lost)
        case .unknown:
            return end(.unavailable)
        }
    }

    private mutating func end(_ result: Answer) -> Step {
        phase = .ended
        return Step(result: result)
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
        let windowMilliseconds = restoreMilliseconds(now: now)
        guard windowMilliseconds > 0 else { return [] }
        return servers.compactMap { server in
            switch votes[server] {
            case .missing(let found)?:
                return Restore(server: server, fence: fence, found: found, windowMilliseconds: windowMilliseconds)
            // The lease exists on the server, but its fence has not arrived there, or a higher number has replaced it.
            case .renewed(let found)? where !QuorumRound.isRecorded(found.number) || isCertain && found.number != fence:
                return Restore(server: server, fence: fence, found: found, windowMilliseconds: windowMilliseconds)
            default:
                return nil
            }
        }
    }

    /// Returns how long a restore that begins at `now` may take, in milliseconds.
    private func restoreMilliseconds(now: Instant) -> Int64 {
        let validMilliseconds = LeaseValidity.remainingMilliseconds(
            ttlMilliseconds: ttlMilliseconds, sentAt: startedAt, now: now)
        let roundEnd = startedAt.advanced(byMilliseconds: 2 * timeoutMilliseconds)
        return min(timeoutMilliseconds, validMilliseconds, (roundEnd.nanoseconds - now.nanoseconds) / 1_000_000)
    }
}

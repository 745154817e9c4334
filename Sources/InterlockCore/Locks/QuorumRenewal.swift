/// One renewal of a lease on a majority of independent Redis servers. Answers come in one by one; the renewal's answer and what to
/// restore go out.
///
/// A server that came back empty has lost the lease, and grants the lock again. A renewal gives the lease back to it, so that a
/// rolling restart never leaves it on fewer than a majority:
///
/// - only after a majority has renewed the lease in this very round, and within the validity that the round gives. A restore
///   adds to a majority and never makes one, and an expired lease is not restored;
/// - only into a free lock: `quorum-fence.lua` decides, on the server, and not later than this round may take;
/// - with a fence that is not below the lease's. The servers that renewed it are a majority, so one of them is among those that
///   recorded the lease's fence before it was handed out: the highest recorded number among them is that fence or higher. So
///   the servers that record at least the lease's fence stay a majority, and every later grant is given a higher one. Where the
///   caller or a majority names the fence, a server with a higher number records that one in its place: a renewal that names
///   the fence would not find the lease there.
package struct QuorumRenewal: Sendable {
    package typealias Server = QuorumRound.Server

    /// The lock's number on a server when the renewal asked, and the server's time then.
    package struct Found: Equatable, Sendable {
        /// 0: none.
        package var number: Int64
        package var timeMilliseconds: Int64

        package init(number: Int64, timeMilliseconds: Int64) {
            self.number = number
            self.timeMilliseconds = timeMilliseconds
        }
    }

    /// The answer of a server.
    package enum Vote: Equatable, Sendable {
        case extended(Found)
        /// Another token is in the lock, or none.
        case missing(Found)
        /// The server cannot be reached, or its answer is an error.
        case failed
    }

    package enum Answer: Equatable, Sendable {
        case renewed(validMilliseconds: Int64)
        /// A majority renewed the lease, but nothing is left of its validity.
        case tooLate
        case lost
        case unavailable
    }

    /// A server that is to have the lease again, or its fence.
    package struct Restore: Equatable, Sendable {
        package var server: Server
        package var fence: Int64
        package var found: Found
        /// How long after `found` the server may still carry it out.
        package var windowMilliseconds: Int64

        package init(server: Server, fence: Int64, found: Found, windowMilliseconds: Int64) {
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
        /// `fence` is what a server that has lost the lease is to record; `nil` if no server knows it. It is certain if the caller or a
        /// majority says so.
        case renewed(fence: Int64?, isCertain: Bool)
        case ended
    }

    private let ttl: Int64
    private let startedAt: Instant
    private let patience: Int64
    private var votes: [Vote?]
    private var phase = Phase.collecting
    private let fence: Int64?

    /// - Parameters:
    ///   - fence: of the only lease that is renewed; `nil` for the one that the token has.
    ///   - ttl: the lease's new length in milliseconds.
    ///   - startedAt: the time before the first request was sent.
    ///   - patience: how long the servers have to answer, in milliseconds.
    package init(servers: Int, ttl: Int64, fence: Int64? = nil, startedAt: Instant, patience: Int64) {
        self.ttl = ttl
        self.fence = fence
        self.startedAt = startedAt
        self.patience = patience
        votes = Array(repeating: nil, count: servers)
    }

    /// The answer of a server, also when it comes after everything is decided.
    package mutating func vote(_ vote: Vote, by server: Server, now: Instant) -> Step {
        guard votes[server] == nil else { return Step() }
        votes[server] = vote
        switch phase {
        case .collecting: return judge(awaitsMore: true, now: now)
        case .renewed: return Step(restores: restores(on: [server], now: now))
        case .ended: return Step()
        }
    }

    /// Servers that have not answered by now no longer count.
    package mutating func timedOut(now: Instant) -> Step {
        phase == .collecting ? judge(awaitsMore: false, now: now) : Step()
    }

    /// The lease can still be relied on, and this round's time is not over.
    package func mayRestore(now: Instant) -> Bool {
        window(now: now) > 0
    }

    // MARK: Deciding

    private mutating func judge(awaitsMore: Bool, now: Instant) -> Step {
        let answers: [QuorumTally.Answer] = votes.compactMap { vote in
            switch vote {
            case .extended?: .yes
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
            if case .extended(let found)? = vote, QuorumRound.isRecorded(found.number) { found.number } else { nil }
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
            // The lease is there, but its fence has not arrived, or a higher number has taken its place.
            case .extended(let found)? where !QuorumRound.isRecorded(found.number) || isCertain && found.number != fence:
                return Restore(server: server, fence: fence, found: found, windowMilliseconds: window)
            default:
                return nil
            }
        }
    }

    /// How long a restore may take from now on, in milliseconds.
    private func window(now: Instant) -> Int64 {
        let valid = LeaseValidity.remaining(ttl: ttl, sentAt: startedAt, now: now)
        let roundIsOver = startedAt.advanced(byMilliseconds: 2 * patience)
        return min(patience, valid, (roundIsOver.nanoseconds - now.nanoseconds) / 1_000_000)
    }
}

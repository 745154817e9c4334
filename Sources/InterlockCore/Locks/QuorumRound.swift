/// One attempt to acquire a lock on a majority of independent Redis servers: a state machine that takes answers one by
/// one and returns the next action.
///
/// The algorithm is Redlock (redis.io, "Distributed Locks with Redis"), extended with fences.
///
/// Fences. Each server that grants the lock mints a number higher than any it knows. The lease's fence is the highest
/// number among the grants, and the lease is handed out only when a majority of the servers has recorded its fence. A
/// server records a fence only while its lock holds the lease's token. So fences strictly rise: let a majority W have
/// recorded fence F of one lease, and a majority M grant the next one. Some server is in both. It recorded F while it
/// held the first token and granted the second lease after that token was gone, so it then minted at least F + 1, and
/// the second lease's fence is not lower. The argument uses no clock; clocks keep fences rising only where a server has
/// lost its number.
///
/// Minted numbers are even and recorded fences are odd, so that a server can distinguish a hold that may have been
/// handed out from one that is known not to have been.
package struct QuorumRound: Sendable {
    /// A server's index in the configuration.
    package typealias Server = Int

    /// A server's answer to the acquire.
    package enum Vote: Equatable, Sendable {
        /// The lock was free, and the server minted `fence` for it.
        case granted(fence: Int64)
        /// The same token already held the lock. `fence` is the server's number, which is odd if it has been recorded.
        case renewed(fence: Int64)
        /// Another token holds the lock. If `isRecorded`, that token has or had a lease; otherwise it may belong to a
        /// concurrent attempt that gets no majority either.
        case held(isRecorded: Bool)
        /// The server is unreachable, or its answer is an error.
        case failed
    }

    /// Why there is no lease.
    package enum Reason: Equatable, Sendable {
        /// Other owners hold the lock on so many servers that a majority is impossible.
        case held
        /// Concurrent attempts each hold some of the servers, so possibly none of them succeeds.
        case contended
        /// Too few servers answered, or they took too long.
        case unavailable
    }

    /// The caller's next step.
    package enum Action: Equatable, Sendable {
        case none
        /// Ask these servers to record the fence.
        case writeFence(Int64, servers: [Server])
        /// Hand out the lease.
        case granted(fence: Int64, validMilliseconds: Int64)
        /// Release the lock everywhere, including servers that have not answered, because there is no lease.
        case giveUp(Reason)
        /// Release the lock on one server, whose grant came too late.
        case release(Server)
    }

    /// The last known state of one server.
    private enum ServerState: Equatable, Sendable {
        case asked
        /// No answer in time; it may still come.
        case silent
        case holding(fence: Int64, isRenewed: Bool)
        case held(isRecorded: Bool)
        case failed
        /// Asked to record the fence.
        case writing
        /// The fence is recorded.
        case written
        /// Asked to record the fence, and not known to have done so.
        case notWritten
    }

    private enum Phase: Equatable, Sendable {
        case collecting
        case recording(fence: Int64)
        case granted(fence: Int64)
        case givenUp
    }

    private let ttl: Int64
    private let startedAt: Instant
    private let awaitsEveryAnswer: Bool
    private var states: [ServerState]
    private var phase = Phase.collecting

    /// - Parameters:
    ///   - servers: the number of servers.
    ///   - ttl: the lease's TTL in milliseconds.
    ///   - startedAt: a time before the first request was sent.
    ///   - awaitsEveryAnswer: whether every server that answers in time takes part in the fence, so that each of them
    ///     gives the same answer again to an owner that retries. Otherwise the first majority decides.
    package init(servers: Int, ttl: Int64, startedAt: Instant, awaitsEveryAnswer: Bool = false) {
        self.ttl = ttl
        self.startedAt = startedAt
        self.awaitsEveryAnswer = awaitsEveryAnswer
        states = Array(repeating: .asked, count: servers)
    }

    package var isGivenUp: Bool { phase == .givenUp }

    /// Records a server's answer to the acquire, even after the round is decided.
    package mutating func vote(_ vote: Vote, by server: Server, now: Instant) -> Action {
        guard states[server] == .asked || states[server] == .silent else { return .none }
        let isHolding: Bool
        switch vote {
        case .granted(let fence):
            states[server] = .holding(fence: fence, isRenewed: false)
            isHolding = true
        case .renewed(let fence):
            states[server] = .holding(fence: fence, isRenewed: true)
            isHolding = true
        case .held(let isRecorded):
            states[server] = .held(isRecorded: isRecorded)
            isHolding = false
        case .failed:
            states[server] = .failed
            isHolding = false
        }
        switch phase {
        case .collecting:
            return evaluateVotes(now: now)
        case .recording(let fence):
            guard isHolding else { return evaluateRecords(of: fence, now: now) }
            states[server] = .writing
            return .writeFence(fence, servers: [server])
        case .granted(let fence):
            guard isHolding else { return .none }
            states[server] = .writing
            return .writeFence(fence, servers: [server])
        case .givenUp:
            return isHolding ? .release(server) : .none
        }
    }

    /// Records whether a server recorded the fence. It did not if the token no longer holds the lock there, or if the
    /// server is unreachable.
    package mutating func recorded(_ isRecorded: Bool, by server: Server, now: Instant) -> Action {
        guard states[server] == .writing else { return .none }
        states[server] = isRecorded ? .written : .notWritten
        guard case .recording(let fence) = phase else { return .none }
        return evaluateRecords(of: fence, now: now)
    }

    /// Ends the wait for servers that have not answered. The round is then decided or moves to its next phase.
    package mutating func timedOut(now: Instant) -> Action {
        for server in states.indices {
            switch states[server] {
            case .asked: states[server] = .silent
            case .writing: states[server] = .notWritten
            default: break
            }
        }
        switch phase {
        case .collecting: return evaluateVotes(now: now)
        case .recording(let fence): return evaluateRecords(of: fence, now: now)
        case .granted, .givenUp: return .none
        }
    }

    /// Returns the recorded fence that a majority of `servers` agrees on.
    package static func agreedFence(among fences: some Sequence<Int64>, servers: Int) -> Int64? {
        var counts: [Int64: Int] = [:]
        for fence in fences where isRecorded(fence) { counts[fence, default: 0] += 1 }
        return counts.first { $0.value >= QuorumTally.majority(of: servers) }?.key
    }

    /// Returns whether a server's number is a recorded fence and not merely minted.
    package static func isRecorded(_ fence: Int64) -> Bool { fence % 2 != 0 }

    // MARK: Deciding

    private var majority: Int { QuorumTally.majority(of: states.count) }

    private func count(_ matches: (ServerState) -> Bool) -> Int { states.count(where: matches) }

    private mutating func evaluateVotes(now: Instant) -> Action {
        let open = count { $0 == .asked }
        let recorded = count { $0 == .held(isRecorded: true) }
        let contested = count { $0 == .held(isRecorded: false) }
        let held = recorded + contested
        let maximumHeld = states.count - majority
        let holding = states.indices.filter { if case .holding = states[$0] { true } else { false } }
        guard LeaseValidity.remaining(ttl: ttl, sentAt: startedAt, now: now) > 0 else {
            return giveUp(held > maximumHeld ? .held : .unavailable)
        }
        if holding.count >= majority {
            guard let fence = leaseFence(hasAllAnswers: open == 0) else { return .none }
            phase = .recording(fence: fence)
            for server in holding { states[server] = .writing }
            return .writeFence(fence, servers: holding)
        }
        if recorded > maximumHeld { return giveUp(.held) }
        guard holding.count + open < majority else { return .none }
        if held > maximumHeld { return giveUp(.contended) }
        // There is no majority, and a missing answer may still decide whether the holder or an outage is to blame.
        if open > 0, held + open > maximumHeld { return .none }
        return giveUp(contested > 0 && holding.count + held >= majority ? .contended : .unavailable)
    }

    /// Returns the fence of this lease; `nil` if more answers are needed.
    private func leaseFence(hasAllAnswers: Bool) -> Int64? {
        var highest: Int64 = 0
        var renewed: [Int64] = []
        for case .holding(let fence, let isRenewed) in states {
            highest = max(highest, fence)
            if isRenewed { renewed.append(fence) }
        }
        // The owner already has this lease. Any majority that holds it has numbers above all earlier fences, so the
        // fence that it agrees on is higher than those even if it is not the highest.
        if let known = Self.agreedFence(among: renewed, servers: states.count) { return known }
        guard hasAllAnswers || !awaitsEveryAnswer else { return nil }
        return Self.isRecorded(highest) ? highest : highest + 1
    }

    private mutating func evaluateRecords(of fence: Int64, now: Instant) -> Action {
        let valid = LeaseValidity.remaining(ttl: ttl, sentAt: startedAt, now: now)
        guard valid > 0 else { return giveUp(.unavailable) }
        let written = count { $0 == .written }
        if written >= majority {
            phase = .granted(fence: fence)
            return .granted(fence: fence, validMilliseconds: valid)
        }
        let open = count { $0 == .writing || $0 == .asked }
        return written + open < majority ? giveUp(.unavailable) : .none
    }

    private mutating func giveUp(_ reason: Reason) -> Action {
        phase = .givenUp
        return .giveUp(reason)
    }
}

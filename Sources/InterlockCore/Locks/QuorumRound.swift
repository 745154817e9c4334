/// One attempt to acquire a lock on a majority of independent Redis servers: a state machine that takes the servers'
/// answers one by one and returns the next action.
///
/// The algorithm is Redlock (redis.io, "Distributed Locks with Redis"), extended with fences.
///
/// Each server that grants the lock mints a number above every number it knows. The lease's fence is the highest of
/// these numbers, made odd. The caller receives the lease only after a majority of the servers has recorded the fence,
/// and a server records a fence only while its lock holds the lease's token.
///
/// Therefore fences strictly rise. Let a majority W have recorded fence F of one lease, and let a majority M grant the
/// next one. Some server belongs to both majorities. It recorded F while it held the first token, and it granted the
/// second lease after that token was gone. So it minted at least F + 1, and the second fence is not lower. The argument
/// uses no clock. Only where a server has lost its number do clocks keep the fences rising.
///
/// Minted numbers are even and recorded fences are odd. A server can therefore distinguish a hold whose lease a caller
/// may have received from one whose lease no caller can have received.
package struct QuorumRound: Sendable {
    /// A server's index in the configuration.
    package typealias Server = Int

    /// A server's answer to the acquire.
    package enum Vote: Equatable, Sendable {
        /// The lock was free, and the server minted the number `fence` for the grant.
        case granted(fence: Int64)
        /// The same token already held the lock. `fence` is the server's number: odd for a recorded fence, even for a
        /// minted number.
        case renewed(fence: Int64)
        /// Another token holds the lock. If `isRecorded`, a lease existed under that token. Otherwise the token may
        /// belong to a concurrent attempt that gets no majority either.
        case held(isRecorded: Bool)
        /// The server is unreachable, or replied with an error.
        case failed
    }

    /// The reason for giving up.
    package enum Reason: Equatable, Sendable {
        /// Other owners hold the lock on so many servers that a majority is impossible.
        case held
        /// Concurrent attempts each hold some of the servers, so it is possible that no attempt succeeds.
        case contended
        /// Too few servers replied, or they took too long.
        case unavailable
    }

    /// The caller's next step.
    package enum Action: Equatable, Sendable {
        case none
        /// Have these servers record the fence.
        case writeFence(Int64, servers: [Server])
        /// Give the lease to the caller.
        case granted(fence: Int64, validMilliseconds: Int64)
        /// Release the lock on all servers, including those that have not replied, because the round failed.
        case giveUp(Reason)
        /// Release the lock on this server, which granted it after the round had failed.
        case release(Server)
    }

    /// The last known state of one server.
    private enum ServerState: Equatable, Sendable {
        /// The request is in flight.
        case asked
        /// No reply arrived in time; it may still arrive.
        case silent
        case holding(fence: Int64, isRenewed: Bool)
        case held(isRecorded: Bool)
        case failed
        /// The request to record the fence is in flight.
        case writing
        /// The server recorded the fence.
        case written
        /// The server is not known to have recorded the fence.
        case notWritten
    }

    private enum Phase: Equatable, Sendable {
        case collecting
        case recording(fence: Int64)
        case granted(fence: Int64)
        case givenUp
    }

    private let ttlMilliseconds: Int64
    private let startedAt: Instant
    private let awaitsEveryAnswer: Bool
    private var states: [ServerState]
    private var phase = Phase.collecting

    /// Begins a round.
    /// - Parameters:
    ///   - servers: the number of servers.
    ///   - ttlMilliseconds: the lease's TTL in milliseconds.
    ///   - startedAt: a time before the first request was sent.
    ///   - awaitsEveryAnswer: whether every server that replies in time records the fence, so that each of them returns
    ///     it to an owner that retries. Otherwise the first majority decides.
    package init(servers: Int, ttlMilliseconds: Int64, startedAt: Instant, awaitsEveryAnswer: Bool = false) {
        self.ttlMilliseconds = ttlMilliseconds
        self.startedAt = startedAt
        self.awaitsEveryAnswer = awaitsEveryAnswer
        states = Array(repeating: .asked, count: servers)
    }

    package var isGivenUp: Bool { phase == .givenUp }

    /// Records a server's answer to the acquire, even after the round has succeeded or failed.
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

    /// Records the reply to a request to record the fence.
    /// - Parameter isRecorded: `false` if the token no longer holds the lock on that server, or if the server is
    ///   unreachable.
    package mutating func fenceRecorded(_ isRecorded: Bool, by server: Server, now: Instant) -> Action {
        guard states[server] == .writing else { return .none }
        states[server] = isRecorded ? .written : .notWritten
        guard case .recording(let fence) = phase else { return .none }
        return evaluateRecords(of: fence, now: now)
    }

    /// Ends the wait for servers that have not replied. The round then succeeds, fails or moves to its next phase.
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

    /// Returns the recorded fence that a majority of the servers agrees on; `nil` if there is no such fence.
    /// - Parameter servers: the number of servers.
    package static func agreedFence(among fences: some Sequence<Int64>, servers: Int) -> Int64? {
        var counts: [Int64: Int] = [:]
        for fence in fences where isRecorded(fence) { counts[fence, default: 0] += 1 }
        return counts.first { $0.value >= QuorumTally.majority(of: servers) }?.key
    }

    /// Returns whether a server's number is a recorded fence. Otherwise the server has only minted it.
    package static func isRecorded(_ fence: Int64) -> Bool { fence % 2 != 0 }

    // MARK: Deciding

    private var majority: Int { QuorumTally.majority(of: states.count) }

    private func count(_ matches: (ServerState) -> Bool) -> Int { states.count(where: matches) }

    private mutating func evaluateVotes(now: Instant) -> Action {
        let openCount = count { $0 == .asked }
        let recordedCount = count { $0 == .held(isRecorded: true) }
        let contestedCount = count { $0 == .held(isRecorded: false) }
        let heldCount = recordedCount + contestedCount
        let maximumHeldCount = states.count - majority
        let holding = states.indices.filter { if case .holding = states[$0] { true } else { false } }
        guard LeaseValidity.remainingMilliseconds(ttlMilliseconds: ttlMilliseconds, sentAt: startedAt, now: now) > 0
        else {
            return giveUp(heldCount > maximumHeldCount ? .held : .unavailable)
        }
        if holding.count >= majority {
            guard let fence = leaseFence(hasAllAnswers: openCount == 0) else { return .none }
            phase = .recording(fence: fence)
            for server in holding { states[server] = .writing }
            return .writeFence(fence, servers: holding)
        }
        if recordedCount > maximumHeldCount { return giveUp(.held) }
        guard holding.count + openCount < majority else { return .none }
        if heldCount > maximumHeldCount { return giveUp(.contended) }
        // No majority is possible. A missing answer may still decide whether another holder or an outage is the reason.
        if openCount > 0, heldCount + openCount > maximumHeldCount { return .none }
        return giveUp(contestedCount > 0 && holding.count + heldCount >= majority ? .contended : .unavailable)
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
        // fence that the majority agrees on is above them too, even if another server has a higher number.
        if let agreedFence = Self.agreedFence(among: renewed, servers: states.count) { return agreedFence }
        guard hasAllAnswers || !awaitsEveryAnswer else { return nil }
        return Self.isRecorded(highest) ? highest : highest + 1
    }

    private mutating func evaluateRecords(of fence: Int64, now: Instant) -> Action {
        let validMilliseconds = LeaseValidity.remainingMilliseconds(
            ttlMilliseconds: ttlMilliseconds, sentAt: startedAt, now: now)
        guard validMilliseconds > 0 else { return giveUp(.unavailable) }
        let writtenCount = count { $0 == .written }
        if writtenCount >= majority {
            phase = .granted(fence: fence)
            return .granted(fence: fence, validMilliseconds: validMilliseconds)
        }
        let openCount = count { $0 == .writing || $0 == .asked }
        return writtenCount + openCount < majority ? giveUp(.unavailable) : .none
    }

    private mutating func giveUp(_ reason: Reason) -> Action {
        phase = .givenUp
        return .giveUp(reason)
    }
}

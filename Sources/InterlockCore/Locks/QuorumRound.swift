/// One attempt to take a lock on a majority of independent Redis servers: answers come in one by one, and what is to be done
/// next goes out.
///
/// Source: the Redlock algorithm, redis.io "Distributed Locks with Redis"; fences are added to it.
///
/// Fences. Each server that grants the lock mints a number higher than all it knows of. The lease's fence is the highest of
/// the grants, and it is handed out only when a majority of the servers has recorded it; a server records it only while the
/// lease's token stands in its lock. So fences strictly rise: let a majority W have recorded fence F of one lease, and a
/// majority M grant the next one. Some server is in both. It recorded F while the first token stood there and granted the
/// second when that was gone, so what it minted then is at least F + 1, and the second lease's fence is not lower. No clock
/// has a part in this; clocks alone keep fences rising where a server has lost the number.
///
/// A minted number is even and a recorded fence is odd, so that a server can tell a hold that may have been handed out
/// from one that surely was not.
package struct QuorumRound: Sendable {
    /// A server by its place in the configuration, from 0.
    package typealias Server = Int

    /// What a server answered to the acquire.
    package enum Vote: Equatable, Sendable {
        /// It was free; `fence` was minted for it.
        case granted(fence: Int64)
        /// The same token had it already. `fence` is the number that stands there: odd when it has been recorded.
        case extended(fence: Int64)
        /// Another has it. `isRecorded`: a lease rests on it, or did; otherwise it may be somebody's who asks at the same time,
        /// and gets no majority either.
        case held(isRecorded: Bool)
        /// The server cannot be reached, or its answer is an error.
        case failed
    }

    /// Why there is no lease.
    package enum Reason: Equatable, Sendable {
        /// Others have the lock on so many servers that no majority is left.
        case held
        /// Several ask at once and have a part of the servers each: nobody may have got it.
        case contended
        /// Too few servers answered, or they took too long.
        case unavailable
    }

    /// What the caller is to do next.
    package enum Action: Equatable, Sendable {
        case none
        /// Have these servers record the fence.
        case writeFence(Int64, servers: [Server])
        /// Hand the lease out.
        case granted(fence: Int64, validMilliseconds: Int64)
        /// There is no lease: free the lock everywhere, also where no answer has come from.
        case giveUp(Reason)
        /// Free the lock on one server, whose grant came too late.
        case release(Server)
    }

    /// What is known of one server.
    private enum Standing: Equatable, Sendable {
        case asked
        /// Its answer did not come in time; it may still come.
        case silent
        case holding(fence: Int64, isExtended: Bool)
        case held(isRecorded: Bool)
        case failed
        /// It was told the fence.
        case writing
        /// It has recorded the fence.
        case written
        /// It was told the fence and has not recorded it, as far as is known.
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
    private var standings: [Standing]
    private var phase = Phase.collecting

    /// - Parameters:
    ///   - servers: how many there are.
    ///   - ttl: the lease's length in milliseconds.
    ///   - startedAt: the time before the first request was sent.
    ///   - awaitsEveryAnswer: for owners who may ask again: every server that answers in time takes part in the fence, and so
    ///     every one of them gives the same when it is asked again. Otherwise the first majority decides.
    package init(servers: Int, ttl: Int64, startedAt: Instant, awaitsEveryAnswer: Bool = false) {
        self.ttl = ttl
        self.startedAt = startedAt
        self.awaitsEveryAnswer = awaitsEveryAnswer
        standings = Array(repeating: .asked, count: servers)
    }

    package var isGivenUp: Bool { phase == .givenUp }

    /// The answer of a server to the acquire, also when it comes after everything is decided.
    package mutating func vote(_ vote: Vote, by server: Server, now: Instant) -> Action {
        guard standings[server] == .asked || standings[server] == .silent else { return .none }
        let isHolding: Bool
        switch vote {
        case .granted(let fence):
            standings[server] = .holding(fence: fence, isExtended: false)
            isHolding = true
        case .extended(let fence):
            standings[server] = .holding(fence: fence, isExtended: true)
            isHolding = true
        case .held(let isRecorded):
            standings[server] = .held(isRecorded: isRecorded)
            isHolding = false
        case .failed:
            standings[server] = .failed
            isHolding = false
        }
        switch phase {
        case .collecting:
            return judgeVotes(now: now)
        case .recording(let fence):
            guard isHolding else { return judgeRecords(of: fence, now: now) }
            standings[server] = .writing
            return .writeFence(fence, servers: [server])
        case .granted(let fence):
            guard isHolding else { return .none }
            standings[server] = .writing
            return .writeFence(fence, servers: [server])
        case .givenUp:
            return isHolding ? .release(server) : .none
        }
    }

    /// A server has recorded the fence; or it has not: the token is gone there, or it cannot be reached.
    package mutating func recorded(_ isRecorded: Bool, by server: Server, now: Instant) -> Action {
        guard standings[server] == .writing else { return .none }
        standings[server] = isRecorded ? .written : .notWritten
        guard case .recording(let fence) = phase else { return .none }
        return judgeRecords(of: fence, now: now)
    }

    /// Those who have not answered by now no longer count: the round is decided or goes on to its next question.
    package mutating func timedOut(now: Instant) -> Action {
        for server in standings.indices {
            switch standings[server] {
            case .asked: standings[server] = .silent
            case .writing: standings[server] = .notWritten
            default: break
            }
        }
        switch phase {
        case .collecting: return judgeVotes(now: now)
        case .recording(let fence): return judgeRecords(of: fence, now: now)
        case .granted, .givenUp: return .none
        }
    }

    /// The recorded fence that a majority of `servers` agrees on.
    package static func agreedFence(among fences: some Sequence<Int64>, servers: Int) -> Int64? {
        var counts: [Int64: Int] = [:]
        for fence in fences where isRecorded(fence) { counts[fence, default: 0] += 1 }
        return counts.first { $0.value >= QuorumTally.majority(of: servers) }?.key
    }

    /// Whether a server's number is a recorded fence, and not merely minted.
    package static func isRecorded(_ fence: Int64) -> Bool { fence % 2 != 0 }

    // MARK: Deciding

    private var majority: Int { QuorumTally.majority(of: standings.count) }

    private func count(_ matches: (Standing) -> Bool) -> Int { standings.count(where: matches) }

    private mutating func judgeVotes(now: Instant) -> Action {
        let open = count { $0 == .asked }
        let recorded = count { $0 == .held(isRecorded: true) }
        let contested = count { $0 == .held(isRecorded: false) }
        let held = recorded + contested
        let tooMany = standings.count - majority
        let holding = standings.indices.filter { if case .holding = standings[$0] { true } else { false } }
        guard LeaseValidity.remaining(ttl: ttl, sentAt: startedAt, now: now) > 0 else {
            return giveUp(held > tooMany ? .held : .unavailable)
        }
        if holding.count >= majority {
            guard let fence = leaseFence(areAllIn: open == 0) else { return .none }
            phase = .recording(fence: fence)
            for server in holding { standings[server] = .writing }
            return .writeFence(fence, servers: holding)
        }
        if recorded > tooMany { return giveUp(.held) }
        guard holding.count + open < majority else { return .none }
        if held > tooMany { return giveUp(.contended) }
        // There is no majority; whether the holder or an outage is to blame may hang on who has not answered yet.
        if open > 0, held + open > tooMany { return .none }
        return giveUp(contested > 0 && holding.count + held >= majority ? .contended : .unavailable)
    }

    /// The fence of this lease; `nil`: that takes further answers.
    private func leaseFence(areAllIn: Bool) -> Int64? {
        var highest: Int64 = 0
        var extended: [Int64] = []
        for case .holding(let fence, let isExtended) in standings {
            highest = max(highest, fence)
            if isExtended { extended.append(fence) }
        }
        // The lease that the owner has already. Any majority that holds it has numbers above all earlier fences, so what
        // it agrees on is higher than those even where it is not the highest.
        if let known = Self.agreedFence(among: extended, servers: standings.count) { return known }
        guard areAllIn || !awaitsEveryAnswer else { return nil }
        return Self.isRecorded(highest) ? highest : highest + 1
    }

    private mutating func judgeRecords(of fence: Int64, now: Instant) -> Action {
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

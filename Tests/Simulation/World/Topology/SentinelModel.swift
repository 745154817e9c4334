/// The decisions of one Sentinel, without I/O: whether the primary is down, which Sentinel leads the failover, which
/// replica to promote, and which server has the wrong role. Timeouts are shorter than Redis's defaults, so that a
/// failover takes about a second.
///
/// Source: "High availability with Redis Sentinel", and `sentinel.c` of Redis 7.0.15.
struct SentinelModel {
    enum Action: Equatable {
        /// Asks the other Sentinels whether they consider the primary down too, and perhaps for their votes.
        case ask(epoch: Int64, wantsVote: Bool)
        case promote(Int)
        case follow(server: Int, primary: Int)
        /// Publishes `+promoted-slave`.
        case reportPromoted(Int)
        /// Publishes `+switch-master`.
        case reportSwitch(from: Int, to: Int)
    }

    /// The last known state of a server.
    private struct ServerState {
        var lastReply: Nanoseconds
        /// The time since which the server has been reachable without a gap.
        var upSince: Nanoseconds
        /// The server that this one replicates; `nil` if it is a primary.
        var follows: Int?
        /// The time since which the server has had this role.
        var roleSince: Nanoseconds
        var offset: Int64
    }

    private enum Stage {
        case idle
        case electing(epoch: Int64, began: Nanoseconds, votes: Set<Int>)
        case promoting(epoch: Int64, replica: Int, began: Nanoseconds)
        /// The replica is now a primary: clients are notified, and the other replicas are redirected to it.
        case reconfiguring(replica: Int, began: Nanoseconds)
    }

    /// A Sentinel's opinion about the primary, and its last vote.
    struct Vote {
        var isDown: Bool
        var candidate: Int
        var epoch: Int64
    }

    /// The silence after which a server counts as down.
    private static let downAfter: Nanoseconds = .milliseconds(600)
    /// The maximum age of a reply or an opinion that counts.
    private static let freshness: Nanoseconds = .milliseconds(500)
    private static let electionTime: Nanoseconds = .milliseconds(400)
    private static let promotionTime: Nanoseconds = .milliseconds(1000)
    private static let reconfigurationTime: Nanoseconds = .milliseconds(400)
    /// The time after which a server that is unexpectedly a primary is turned into a replica.
    private static let strayTime: Nanoseconds = .milliseconds(2000)
    /// The time after which a replica of the wrong server is redirected.
    private static let misdirectedTime: Nanoseconds = .milliseconds(1000)

    let number: Int
    private let sentinelCount: Int
    private let quorum: Int
    private var states: [ServerState]
    /// The primary since the last completed switch.
    private(set) var primary: Int
    /// The epoch of the failover that promoted `primary`.
    private(set) var configEpoch: Int64 = 0
    private(set) var currentEpoch: Int64 = 0
    private var vote: (candidate: Int, epoch: Int64) = (-1, 0)
    private var opinions: [Int: (isDown: Bool, at: Nanoseconds)] = [:]
    private var stage = Stage.idle
    private var nextAttempt: Nanoseconds = 0
    private var switchedAt: Nanoseconds = 0

    init(number: Int, sentinels: Int, quorum: Int, servers: Int, primary: Int, now: Nanoseconds) {
        self.number = number
        sentinelCount = sentinels
        self.quorum = quorum
        self.primary = primary
        states = (0..<servers).map { server in
            ServerState(lastReply: now, upSince: now, follows: server == primary ? nil : primary, roleSince: now, offset: 0)
        }
    }

    /// The primary that clients are directed to.
    var announcedPrimary: Int {
        if case .reconfiguring(let replica, _) = stage { replica } else { primary }
    }

    var isIdle: Bool { if case .idle = stage { true } else { false } }

    private func isDown(_ server: Int, _ now: Nanoseconds) -> Bool { now - states[server].lastReply > Self.downAfter }

    // MARK: Incoming messages

    /// Records a server's reply to `PING` and `INFO`.
    mutating func replyReceived(_ server: Int, follows: Int?, offset: Int64, now: Nanoseconds) {
        var state = states[server]
        if now - state.lastReply > Self.downAfter { state.upSince = now }
        if state.follows != follows { state.roleSince = now }
        (state.lastReply, state.follows, state.offset) = (now, follows, offset)
        states[server] = state
    }

    /// Answers another Sentinel's request with this one's opinion and the candidate that it voted for.
    ///
    /// - Parameter jitter: the time after a vote during which this Sentinel leaves the failover to the candidate.
    mutating func voteRequested(
        by candidate: Int, about server: Int, epoch: Int64, wantsVote: Bool, now: Nanoseconds, jitter: Nanoseconds
    ) -> Vote {
        if wantsVote {
            currentEpoch = max(currentEpoch, epoch)
            if vote.epoch < epoch, currentEpoch <= epoch {
                vote = (candidate, epoch)
                nextAttempt = max(nextAttempt, now + jitter)
            }
        }
        return Vote(isDown: server == primary && isDown(primary, now), candidate: vote.candidate, epoch: vote.epoch)
    }

    /// Records another Sentinel's opinion and vote.
    mutating func voteReceived(_ vote: Vote, by sentinel: Int, now: Nanoseconds) {
        opinions[sentinel] = (vote.isDown, now)
        guard case .electing(let epoch, let began, var votes) = stage, vote.epoch == epoch, vote.candidate == number
        else {
            return
        }
        votes.insert(sentinel)
        stage = .electing(epoch: epoch, began: began, votes: votes)
    }

    /// Processes another Sentinel's announcement of the primary.
    mutating func received(primary newPrimary: Int, epoch: Int64, currentEpoch otherEpoch: Int64, now: Nanoseconds)
        -> [Action]
    {
        currentEpoch = max(currentEpoch, otherEpoch)
        guard epoch > configEpoch else { return [] }
        configEpoch = epoch
        return switchPrimary(to: newPrimary, now)
    }

    private mutating func switchPrimary(to newPrimary: Int, _ now: Nanoseconds) -> [Action] {
        stage = .idle
        opinions = [:]
        guard newPrimary != primary else { return [] }
        let former = primary
        primary = newPrimary
        switchedAt = now
        return [.reportSwitch(from: former, to: newPrimary)]
    }

    // MARK: Decisions

    /// Returns the actions that are due now.
    ///
    /// - Parameter jitter: the pause after a failed attempt.
    mutating func tick(now: Nanoseconds, jitter: Nanoseconds) -> [Action] {
        switch stage {
        case .idle:
            guard isDown(primary, now) else { return redirectStrays(now) }
            let agreeingCount = 1 + opinions.values.count { $0.isDown && now - $0.at < Self.freshness }
            guard agreeingCount >= quorum, now >= nextAttempt else {
                return [.ask(epoch: currentEpoch, wantsVote: false)]
            }
            currentEpoch += 1
            vote = (number, currentEpoch)
            nextAttempt = now + jitter
            stage = .electing(epoch: currentEpoch, began: now, votes: [number])
            return [.ask(epoch: currentEpoch, wantsVote: true)]
        case .electing(let epoch, let began, let votes):
            guard votes.count >= max(quorum, sentinelCount / 2 + 1) else {
                guard now - began > Self.electionTime else { return [.ask(epoch: epoch, wantsVote: true)] }
                stage = .idle
                return []
            }
            guard let replica = bestReplica(now) else {
                stage = .idle
                return []
            }
            stage = .promoting(epoch: epoch, replica: replica, began: now)
            return [.promote(replica)]
        case .promoting(let epoch, let replica, let began):
            let state = states[replica]
            if state.follows == nil, state.lastReply > began {
                configEpoch = epoch
                stage = .reconfiguring(replica: replica, began: now)
                let others = states.indices.filter { $0 != replica && $0 != primary }
                return [.reportPromoted(replica)] + others.map { .follow(server: $0, primary: replica) }
            }
            if now - began > Self.promotionTime { stage = .idle }
            return []
        case .reconfiguring(let replica, let began):
            let haveFollowed = states.indices.allSatisfy { $0 == replica || $0 == primary || states[$0].follows == replica }
            return haveFollowed || now - began > Self.reconfigurationTime ? switchPrimary(to: replica, now) : []
        }
    }

    /// Returns the reachable replica with the most data.
    private func bestReplica(_ now: Nanoseconds) -> Int? {
        let candidates = states.indices.filter {
            $0 != primary && states[$0].follows != nil && now - states[$0].lastReply < Self.freshness
        }
        return candidates.max { states[$0].offset != states[$1].offset ? states[$0].offset < states[$1].offset : $0 > $1 }
    }

    /// Returns the actions that redirect servers to the primary if they are primaries themselves, or replicate another
    /// server.
    private mutating func redirectStrays(_ now: Nanoseconds) -> [Action] {
        guard states[primary].follows == nil, now - states[primary].roleSince > Self.freshness else { return [] }
        var actions: [Action] = []
        for server in states.indices where server != primary && states[server].follows != primary && !isDown(server, now) {
            let since = max(states[server].roleSince, states[server].upSince, switchedAt)
            guard now - since > (states[server].follows == nil ? Self.strayTime : Self.misdirectedTime) else { continue }
            states[server].roleSince = now
            actions.append(.follow(server: server, primary: primary))
        }
        return actions
    }
}

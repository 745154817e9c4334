/// The decisions of one Sentinel, without I/O: whether the primary is down, which Sentinel leads the failover, which
/// replica is promoted, and which server has the wrong role. Times are in nanoseconds and shorter than Redis's
/// defaults, so that a failover takes a second.
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
        var lastReply: Int64
        /// The time since which the server has answered without a gap.
        var upSince: Int64
        /// The server that this one replicates; `nil` if it is a primary.
        var follows: Int?
        /// The time since which the server has had this role.
        var roleSince: Int64
        var offset: Int64
    }

    private enum Stage {
        case idle
        case electing(epoch: Int64, began: Int64, votes: Set<Int>)
        case promoting(epoch: Int64, replica: Int, began: Int64)
        /// The replica is now a primary: clients are notified, and the other replicas are redirected to it.
        case reconfiguring(replica: Int, began: Int64)
    }

    struct Vote {
        var isDown: Bool
        var candidate: Int
        var epoch: Int64
    }

    private static let downAfter: Int64 = .milliseconds(600)
    private static let freshness: Int64 = .milliseconds(500)
    private static let electionTime: Int64 = .milliseconds(400)
    private static let promotionTime: Int64 = .milliseconds(1000)
    private static let reconfigurationTime: Int64 = .milliseconds(400)
    /// The time after which a server that is unexpectedly a primary is turned into a replica.
    private static let strayTime: Int64 = .milliseconds(2000)
    private static let misdirectedTime: Int64 = .milliseconds(1000)

    let number: Int
    private let sentinels: Int
    private let quorum: Int
    private var states: [ServerState]
    /// The primary since the last completed switch.
    private(set) var primary: Int
    /// The epoch of the failover that promoted `primary`.
    private(set) var configEpoch: Int64 = 0
    private(set) var currentEpoch: Int64 = 0
    private var vote: (candidate: Int, epoch: Int64) = (-1, 0)
    private var opinions: [Int: (isDown: Bool, at: Int64)] = [:]
    private var stage = Stage.idle
    private var nextAttempt: Int64 = 0
    private var switchedAt: Int64 = 0

    init(number: Int, sentinels: Int, quorum: Int, servers: Int, primary: Int, now: Int64) {
        self.number = number
        self.sentinels = sentinels
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

    private func isDown(_ server: Int, _ now: Int64) -> Bool { now - states[server].lastReply > Self.downAfter }

    // MARK: Incoming messages

    mutating func replied(_ server: Int, follows: Int?, offset: Int64, now: Int64) {
        var state = states[server]
        if now - state.lastReply > Self.downAfter { state.upSince = now }
        if state.follows != follows { state.roleSince = now }
        (state.lastReply, state.follows, state.offset) = (now, follows, offset)
        states[server] = state
    }

    /// Answers another Sentinel's request with this one's opinion and the candidate that it voted for.
    ///
    /// - Parameter jitter: the time after a vote during which this Sentinel leaves the failover to the candidate.
    mutating func asked(by candidate: Int, about server: Int, epoch: Int64, wantsVote: Bool, now: Int64, jitter: Int64) -> Vote {
        if wantsVote {
            currentEpoch = max(currentEpoch, epoch)
            if vote.epoch < epoch, currentEpoch <= epoch {
                vote = (candidate, epoch)
                nextAttempt = max(nextAttempt, now + jitter)
            }
        }
        return Vote(isDown: server == primary && isDown(primary, now), candidate: vote.candidate, epoch: vote.epoch)
    }

    mutating func answered(_ answer: Vote, by sentinel: Int, now: Int64) {
        opinions[sentinel] = (answer.isDown, now)
        guard case .electing(let epoch, let began, var votes) = stage, answer.epoch == epoch, answer.candidate == number else {
            return
        }
        votes.insert(sentinel)
        stage = .electing(epoch: epoch, began: began, votes: votes)
    }

    /// Processes another Sentinel's announcement of the primary.
    mutating func received(primary new: Int, epoch: Int64, currentEpoch other: Int64, now: Int64) -> [Action] {
        currentEpoch = max(currentEpoch, other)
        guard epoch > configEpoch else { return [] }
        configEpoch = epoch
        return switchPrimary(to: new, now)
    }

    private mutating func switchPrimary(to new: Int, _ now: Int64) -> [Action] {
        stage = .idle
        opinions = [:]
        guard new != primary else { return [] }
        let former = primary
        primary = new
        switchedAt = now
        return [.reportSwitch(from: former, to: new)]
    }

    // MARK: Decisions

    /// Returns the actions that are due now.
    ///
    /// - Parameter jitter: the pause after a failed attempt.
    mutating func tick(now: Int64, jitter: Int64) -> [Action] {
        switch stage {
        case .idle:
            guard isDown(primary, now) else { return redirectStrays(now) }
            let agreeing = 1 + opinions.values.count { $0.isDown && now - $0.at < Self.freshness }
            guard agreeing >= quorum, now >= nextAttempt else { return [.ask(epoch: currentEpoch, wantsVote: false)] }
            currentEpoch += 1
            vote = (number, currentEpoch)
            nextAttempt = now + jitter
            stage = .electing(epoch: currentEpoch, began: now, votes: [number])
            return [.ask(epoch: currentEpoch, wantsVote: true)]
        case .electing(let epoch, let began, let votes):
            guard votes.count >= max(quorum, sentinels / 2 + 1) else {
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

    /// The reachable replica with the most data.
    private func bestReplica(_ now: Int64) -> Int? {
        let candidates = states.indices.filter {
            $0 != primary && states[$0].follows != nil && now - states[$0].lastReply < Self.freshness
        }
        return candidates.max { states[$0].offset != states[$1].offset ? states[$0].offset < states[$1].offset : $0 > $1 }
    }

    /// Redirects servers that replicate the wrong server, or none, to the primary.
    private mutating func redirectStrays(_ now: Int64) -> [Action] {
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

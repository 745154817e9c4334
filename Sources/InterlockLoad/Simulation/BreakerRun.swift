internal import Interlock
internal import InterlockCore

/// One run of `breaker.lua` in the model.
struct BreakerRun {
    let call: ModelRedis.BreakerCall
    private let channel: String
    let key: String
    private let history: String
    let window: String
    private let trials: String
    private let votes: String
    var redis: ModelRedis

    init(call: ModelRedis.BreakerCall, keys: KeySpace, redis: ModelRedis) {
        self.call = call
        self.redis = redis
        channel = keys.events
        key = keys.breaker(call.service)
        history = keys.breakerHistory(call.service)
        window = keys.breakerWindow(call.service)
        trials = keys.breakerTrials(call.service)
        votes = keys.breakerVotes(call.service)
    }

    mutating func reply() -> BreakerReply {
        if case .sync(let known?, _, _) = call.operation, known.generation > generation {
            redis.setFields(key, Dictionary(uniqueKeysWithValues: known.hash))
            announce()
        }
        setBack()
        endForced()
        let isDone = carryOut()
        let hash = redis.fields(key)
        return BreakerReply(
            isDone: isDone, redisTime: now, snapshot: BreakerSnapshot(hash: hash), configuration: hash["configuration"])
    }

    // MARK: The hash

    var now: Int64 { redis.milliseconds }

    func text(_ name: String) -> String { redis.fields(key)[name] ?? "" }

    func number(_ name: String) -> Int64 { Int64(text(name)) ?? 0 }

    private var generation: Int64 { number("generation") }

    private var state: BreakerSnapshot.State { BreakerSnapshot.State(rawValue: text("state")) ?? .closed }

    /// Of a clock that was set back: what began in the future begins now, and no trial stands until that future is over.
    private mutating func setBack() {
        let ahead = number("since") - now
        guard ahead > 0 else { return }
        var moved = ["since": "\(now)"]
        for name in ["until", "forced_until"] where number(name) > 0 { moved[name] = "\(number(name) - ahead)" }
        redis.setFields(key, moved)
        redis.delete(trials, votes)
    }

    private mutating func endForced() {
        let end = number("forced_until")
        guard !text("forced").isEmpty, end > 0, end <= now else { return }
        if case .force = call.operation { return }
        change(to: .closed, cause: "auto")
    }

    // MARK: The call

    private mutating func carryOut() -> Bool {
        switch call.operation {
        case .sync(_, let configuration, let declares):
            let known = redis.fields(key)["configuration"]
            if configuration != known, declares || known == nil {
                redis.setFields(key, ["configuration": configuration])
            }
            return true
        case .force(let forced, let milliseconds, let reason):
            change(
                to: forced == .open ? .open : .closed, cause: (forced == nil ? BreakerCause.auto : .forced).rawValue,
                [
                    "forced": forced?.rawValue ?? "", "reason": reason,
                    "forced_until": forced.flatMap { _ in milliseconds }.map { "\(now + $0)" } ?? "0",
                ])
            return true
        // Votes are a sidecar's own, whatever the others do.
        case .down(_, let lapse, .some):
            cast("outage", lapse: lapse)
        case .up(_, _, .some):
            redis.remove(votes, "outage:" + call.origin)
        case .report, .vote, .trip, .halfOpen, .trial, .trialOutcome, .close, .down, .up:
            break
        }
        guard call.operation.expected ?? generation == generation else { return false }
        guard text("forced").isEmpty else {
            // A disabled breaker goes on counting, so that people see what it would do.
            if case .report(let sums, _, _) = call.operation, text("forced") == "disabled", state == .closed { add(sums) }
            return false
        }
        return decide()
    }

    private mutating func decide() -> Bool {
        switch call.operation {
        case .sync, .force: true
        case .trip(let cause, _, let openFor, let pause): trip(cause, openFor, pause)
        case .vote(let cause, _, let pause): vote(cause, pause)
        case .down(let reason, let lapse, let quorum): outage(reason, lapse: lapse, quorum)
        case .up(_, let isFollowedByTrial, let quorum): outageEnds(isFollowedByTrial: isFollowedByTrial, quorum)
        case .halfOpen: halfOpen()
        case .close(let cause, _): close(cause)
        case .trial(let id, let lifetime, let known): trial(id, lifetime: lifetime, atLeast: known)
        case .trialOutcome(let id, let outcome, _, let retryAfter, let pause):
            trialEnded(id, outcome, retryAfter: retryAfter, pause: pause)
        case .report(let sums, _, let retryAfter): report(sums, retryAfter: retryAfter)
        }
    }

    private mutating func trip(_ cause: BreakerCause, _ openFor: ClosedRange<Duration>, _ pause: Int64?) -> Bool {
        guard state != .open else { return false }
        open(cause, openFor, pause: pause)
        return true
    }

    private mutating func vote(_ cause: BreakerCause, _ pause: Int64?) -> Bool {
        guard state == .closed else { return false }
        let own = pause ?? call.settings.openFor.lowerBound.wholeMilliseconds
        cast(cause.rawValue, lapse: call.settings.voteMilliseconds(pause: own))
        guard voters(ofOutage: false) >= call.settings.reporters else { return false }
        open(cause, call.settings.openFor, pause: pause)
        return true
    }

    private mutating func outage(_ reason: String, lapse: Int64, _ quorum: Int?) -> Bool {
        if let quorum, voters(ofOutage: true) < quorum { return false }
        // An open time that stands already is not made shorter.
        let lapses = state == .open ? max(now + lapse, number("until")) : now + lapse
        if state == .open, text("cause") == "outage" {
            redis.setFields(key, ["until": "\(lapses)", "reason": reason])
        } else {
            change(to: .open, cause: "outage", until: lapses, ["reason": reason])
        }
        return true
    }

    private mutating func outageEnds(isFollowedByTrial: Bool, _ quorum: Int?) -> Bool {
        guard state != .closed, text("cause") == "outage" else { return false }
        if let quorum, voters(ofOutage: true) >= quorum { return false }
        if !isFollowedByTrial {
            change(to: .closed, cause: "probe")
        } else if state == .open {
            change(to: .halfOpen, cause: "probe")
        }
        return true
    }

    private var isOpenTimeOver: Bool { state == .open && number("until") <= now }

    private mutating func halfOpen() -> Bool {
        guard isOpenTimeOver else { return false }
        change(to: .halfOpen, cause: text("cause"), ["reason": text("reason")])
        return true
    }

    private mutating func close(_ cause: BreakerCause) -> Bool {
        let isOver = state == .halfOpen || isOpenTimeOver
        guard state != .closed, cause == .auto || (isOver && text("cause") == cause.rawValue) else { return false }
        change(to: .closed, cause: cause.rawValue)
        return true
    }

    private mutating func trial(_ id: String, lifetime: Int64, atLeast known: Int64) -> Bool {
        guard generation >= known else { return false }
        _ = halfOpen()
        guard state == .halfOpen else { return state == .closed }
        let permits = call.settings.halfOpenPermits
        let successes = Int(number("successes"))
        // More were asked for when they were made: a trial more would never be given.
        if successes >= permits {
            change(to: .closed, cause: "trials")
            return true
        }
        redis.removeMembers(trials, upTo: Double(now))
        if redis.cardinality(trials) + successes >= permits, redis.mutant != .trialsWithoutBound { return false }
        redis.add(trials, id, score: Double(now + lifetime))
        redis.pexpire(trials, lifetime)
        return true
    }

    private mutating func trialEnded(_ id: String, _ outcome: Outcome, retryAfter: Int64?, pause: Int64?) -> Bool {
        guard state == .halfOpen, redis.remove(trials, id) else { return false }
        if outcome == .error || pause != nil {
            open(.failures, call.settings.openFor, pause: pause, retryAfter: retryAfter)
        } else if outcome == .ok {
            let successes = number("successes") + 1
            if successes >= call.settings.halfOpenPermits {
                change(to: .closed, cause: "trials")
            } else {
                redis.setFields(key, ["successes": "\(successes)"])
            }
        }
        return true
    }

    private mutating func report(_ sums: OutcomeSums, retryAfter: Int64?) -> Bool {
        guard state == .closed else { return false }
        let known = add(sums)
        guard !call.settings.isMetricsOnly, !call.settings.isByReporters, let cause = known.cause(by: call.settings) else {
            return false
        }
        open(cause, call.settings.openFor, retryAfter: retryAfter)
        return true
    }

    // MARK: Votes

    private mutating func cast(_ cause: String, lapse: Int64) {
        redis.removeMembers(votes, upTo: Double(now))
        redis.add(votes, cause + ":" + call.origin, score: Double(now + lapse))
        if redis.pttl(votes) < lapse { redis.pexpire(votes, lapse) }
    }

    /// How many different sidecars say that there is an outage, or that calls fail.
    private mutating func voters(ofOutage: Bool) -> Int {
        redis.removeMembers(votes, upTo: Double(now))
        var sidecars: Set<Substring> = []
        for (vote, _) in redis.members(votes) where Self.isOfOutage(vote) == ofOutage {
            if let sidecar = vote.split(separator: ":", maxSplits: 1).last { sidecars.insert(sidecar) }
        }
        return sidecars.count
    }

    private static func isOfOutage(_ vote: String) -> Bool { vote.hasPrefix("outage:") }

    // MARK: Changes

    private mutating func open(
        _ cause: BreakerCause, _ openFor: ClosedRange<Duration>, pause: Int64? = nil, retryAfter: Int64? = nil
    ) {
        let shortest = Double(openFor.lowerBound.wholeMilliseconds)
        let longest = Double(openFor.upperBound.wholeMilliseconds)
        let jitter = 1 + call.random / 10
        var streak = number("streak")
        var cause = cause
        var time: Double
        if let pause {
            cause = .retryAfter
            time = min(Double(BreakerSettings.longestRetryAfter.wholeMilliseconds), Double(pause) * jitter)
        } else if cause == .limit {
            time = shortest + (longest - shortest) * call.random
        } else {
            time = min(longest, shortest * Double(Int64(1) << min(streak, 30)))
            time = min(longest, time * jitter)
            if let retryAfter { time = max(time, Double(retryAfter)) }
            streak += 1
        }
        change(to: .open, cause: cause.rawValue, until: now + Int64(time.rounded(.up)), ["streak": "\(streak)"])
    }

    private mutating func change(
        to next: BreakerSnapshot.State, cause: String, until: Int64 = 0, _ extra: [String: String] = [:]
    ) {
        let old = redis.fields(key)
        let from = state
        let keepsGeneration = redis.mutant == .tripWithoutGeneration && next == .open
        let generation = keepsGeneration ? generation : max(generation + 1, redis.microseconds)
        var new = extra
        let isTrip = next == .open && from != .open
        new["trips"] = "\(number("trips") + (isTrip ? 1 : 0))"
        for name in ["streak", "failure_rate", "slow_rate", "calls"] {
            new[name] = next == .closed ? "0" : new[name] ?? old[name] ?? "0"
        }
        let fields = [
            "state": next.rawValue, "cause": cause, "by": call.by, "since": "\(now)", "until": "\(until)",
            "generation": "\(generation)", "successes": "0", "consecutive": "0", "forced": "", "forced_until": "0",
            "reason": "",
        ]
        new.merge(fields) { given, _ in given }
        redis.setFields(key, new)
        redis.delete(window, trials)
        for (vote, _) in redis.members(votes) where !Self.isOfOutage(vote) { redis.remove(votes, vote) }
        let names = ["cause", "by", "reason", "generation", "until", "failure_rate", "slow_rate", "calls"]
        redis.append(
            history, ["from", from.rawValue, "to", next.rawValue] + names.flatMap { [$0, new[$0] ?? ""] })
        announce()
    }

    /// Tells all sidecars of the hash as it is now.
    private mutating func announce() {
        let event = BreakerAnnouncement(call: call, at: now, hash: redis.fields(key))
        redis.publish(channel, event.json)
    }
}

extension BreakerOperation {
    /// The generation that the caller acts on; `nil`: it asks whatever that is.
    fileprivate var expected: Int64? {
        switch self {
        case .sync, .trial, .down, .force: nil
        case .report(_, let expect, _), .vote(_, let expect, _), .trip(_, let expect, _, _), .halfOpen(let expect),
            .trialOutcome(_, _, let expect, _, _), .close(_, let expect), .up(let expect, _, _):
            expect
        }
    }
}

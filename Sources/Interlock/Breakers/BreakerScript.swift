package import InterlockCore
internal import RedisClient

/// Reads or changes the state of a service's breaker. See `breaker.lua`, and the script of each operation.
struct BreakerScript: ScriptCommand {
    /// The approximate number of changes that the history keeps.
    static let historyLength = 1000

    private static let sync = RedisScript(library: "breaker-sync")
    private static let report = RedisScript(library: "breaker-report")
    private static let vote = RedisScript(library: "breaker-vote")
    private static let trip = RedisScript(library: "breaker-trip")
    private static let halfOpen = RedisScript(library: "breaker-half-open")
    private static let trial = RedisScript(library: "breaker-trial")
    private static let outcome = RedisScript(library: "breaker-outcome")
    private static let close = RedisScript(library: "breaker-close")
    private static let down = RedisScript(library: "breaker-down")
    private static let up = RedisScript(library: "breaker-up")
    private static let force = RedisScript(library: "breaker-force")

    var keys: KeySpace
    var service: String
    var settings: BreakerSettings
    var operation: BreakerOperation
    /// The ends of the open and the forced state that this sidecar knows.
    var ends = BreakerEnds()
    /// The sidecar, or the sidecar and the operator, that makes the change; shown to people.
    var by: String
    /// The ID of the sidecar that sends the operation.
    var origin: String
    var database: Int
    /// A random number from 0 to 1.
    var random: Double

    var script: RedisScript {
        switch operation {
        case .sync: Self.sync
        case .report: Self.report
        case .vote: Self.vote
        case .trip: Self.trip
        case .halfOpen: Self.halfOpen
        case .trial: Self.trial
        case .trialOutcome: Self.outcome
        case .close: Self.close
        case .down: Self.down
        case .up: Self.up
        case .force: Self.force
        }
    }
    var keyCount: Int { 6 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(keys.breaker(service))
        encoder.append(keys.breakerHistory(service))
        encoder.append(keys.breakerWindow(service, settings.window))
        encoder.append(keys.breakerTrials(service))
        encoder.append(keys.breakerVotes(service))
        encoder.append(keys.legacyBreakerWindow(service))
        encoder.append(call)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> BreakerReply {
        guard let parts = reply.array, parts.count == 3, let effect = parts[0].integer,
            let milliseconds = parts[1].integer, let fields = parts[2].fields
        else { throw reply.unexpected(for: script.name) }
        return BreakerReply(
            tookEffect: effect == 1, redisTimeMilliseconds: milliseconds, snapshot: BreakerSnapshot(hash: fields))
    }

    private var call: String {
        var call = BreakerCall()
        call.add("service", text: service)
        call.add("by", text: by)
        call.add("origin", text: origin)
        call.add("db", database)
        call.add("channel", text: keys.events)
        call.add("history", Self.historyLength)
        call.add("random", random)
        call.add(ends.open, "until", over: "over")
        call.add(ends.forced, "forced_until", over: "forced_over")
        switch operation {
        case .sync(let knownSnapshot, let configurationDigest, let registersConfiguration):
            call.add("configuration", text: configurationDigest)
            if registersConfiguration { call.add("declares", true) }
            if let knownSnapshot { call.add("known", object: knownSnapshot.hash) }
        case .report(let sums, let expectedGeneration, let retryAfterMilliseconds):
            call.add(expectedGeneration: expectedGeneration)
            call.add(sums)
            call.add(rulesOf: settings)
            call.add(openFor: settings.openFor)
            call.add("retry_after", retryAfterMilliseconds)
        case .vote(let cause, let expectedGeneration, let pauseMilliseconds):
            call.add(expectedGeneration: expectedGeneration)
            call.add("cause", text: cause.rawValue)
            call.add("reporters", settings.reporters)
            let effectivePauseMilliseconds = pauseMilliseconds ?? settings.openFor.lowerBound.wholeMilliseconds
            call.add("lapse", settings.voteMilliseconds(pauseMilliseconds: effectivePauseMilliseconds))
            call.add(openFor: settings.openFor)
            call.add(pauseMilliseconds: pauseMilliseconds, atMostMilliseconds: settings.maximumPauseMilliseconds)
        case .trip(let cause, let expectedGeneration, let openFor, let pauseMilliseconds):
            call.add(expectedGeneration: expectedGeneration)
            call.add("cause", text: cause.rawValue)
            call.add(openFor: openFor)
            call.add(pauseMilliseconds: pauseMilliseconds, atMostMilliseconds: settings.maximumPauseMilliseconds)
        case .halfOpen(let expectedGeneration):
            call.add(expectedGeneration: expectedGeneration)
        case .trial(let id, let lifetimeMilliseconds, let knownGeneration):
            call.add("at_least", text: "\(knownGeneration)")
            call.add("id", text: id)
            call.add("permits", settings.halfOpenPermits)
            call.add("lifetime", lifetimeMilliseconds)
        case .trialOutcome(
            let id, let outcome, let expectedGeneration, let retryAfterMilliseconds, let pauseMilliseconds):
            call.add(expectedGeneration: expectedGeneration)
            call.add("id", text: id)
            call.add("outcome", text: outcome.rawValue)
            call.add("permits", settings.halfOpenPermits)
            call.add(openFor: settings.openFor)
            call.add("retry_after", retryAfterMilliseconds)
            call.add(pauseMilliseconds: pauseMilliseconds, atMostMilliseconds: settings.maximumPauseMilliseconds)
        case .close(let cause, let expectedGeneration):
            call.add(expectedGeneration: expectedGeneration)
            call.add("cause", text: cause.rawValue)
        case .down(let reason, let lifetimeMilliseconds, let quorum, let isConfirmation, let knownGeneration):
            call.add("at_least", text: "\(knownGeneration)")
            call.add("reason", text: reason)
            call.add("lapse", lifetimeMilliseconds)
            call.add("quorum", quorum)
            if isConfirmation { call.add("seconds", true) }
        case .up(let expectedGeneration, let isFollowedByTrial, let quorum):
            call.add(expectedGeneration: expectedGeneration)
            if isFollowedByTrial { call.add("trial", true) }
            call.add("quorum", quorum)
        case .force(let state, let milliseconds, let reason, let knownGeneration):
            call.add("at_least", text: "\(knownGeneration)")
            call.add("state", text: state?.rawValue ?? "auto")
            call.add("cause", text: (state == nil ? BreakerCause.auto : .forced).rawValue)
            call.add("reason", text: reason)
            call.add("for", milliseconds)
        }
        return call.json
    }
}

/// The reply of a breaker script.
package struct BreakerReply: Hashable, Sendable {
    /// Whether the operation took effect.
    package var tookEffect: Bool
    /// The clock reading of Redis, as Unix time in milliseconds.
    package var redisTimeMilliseconds: Int64
    package var snapshot: BreakerSnapshot

    package init(tookEffect: Bool, redisTimeMilliseconds: Int64, snapshot: BreakerSnapshot) {
        self.tookEffect = tookEffect
        self.redisTimeMilliseconds = redisTimeMilliseconds
        self.snapshot = snapshot
    }
}

extension BreakerSnapshot {
    /// Reads the fields of a breaker's hash in Redis. A missing field is empty or 0.
    package init(hash: [String: String]) {
        // The names of times have no unit in the hash.
        self.init(
            state: hash["state"].flatMap(State.init) ?? .closed, text: { hash[$0] },
            number: { hash[$0.hasSuffix("_ms") ? String($0.dropLast(3)) : $0].flatMap(Int64.init) },
            rate: { hash[$0].flatMap(Double.init) })
    }

    /// The fields that restore the breaker's hash in Redis.
    package var hash: [(String, String)] {
        [
            ("state", state.rawValue), ("cause", cause), ("since", "\(sinceMilliseconds)"), ("until", "\(untilMilliseconds)"),
            ("generation", "\(generation)"), ("trips", "\(trips)"), ("failure_rate", "\(failureRate)"),
            ("slow_rate", "\(slowRate)"), ("calls", "\(calls)"), ("by", changedBy), ("forced", forced?.rawValue ?? ""),
            ("forced_until", "\(forcedUntilMilliseconds)"), ("reason", reason), ("streak", "\(streak)"),
            ("consecutive", "\(consecutive)"), ("successes", "0"),
        ]
    }
}

/// The JSON object that a breaker script gets as its argument.
struct BreakerCall {
    private var members = ""

    var json: String { "{" + members + "}" }

    mutating func add(_ name: String, text: String) {
        add(name, raw: JSONText.quoted(text))
    }

    /// Adds a number or a flag in its JSON form. Omits `nil`.
    mutating func add(_ name: String, _ value: (some LosslessStringConvertible)?) {
        if let value { add(name, raw: "\(value)") }
    }

    mutating func add(_ name: String, object: [(String, String)]) {
        var nested = BreakerCall()
        for (name, value) in object { nested.add(name, text: value) }
        add(name, raw: nested.json)
    }

    /// Adds the generation as a string, because Lua prints only 14 digits of a number.
    mutating func add(expectedGeneration generation: Int64) { add("expect", text: "\(generation)") }

    /// Adds the numbers as strings, because the script compares them with the strings in the hash.
    mutating func add(_ end: BreakerEnds.End?, _ name: String, over: String) {
        guard let end else { return }
        add(name, text: "\(end.number)")
        if let correction = end.correction { add(name + "_to", text: "\(correction)") }
        if end.isOver { add(over, true) }
    }

    mutating func add(openFor range: ClosedRange<Duration>) {
        add("open_min", range.lowerBound.wholeMilliseconds)
        add("open_max", range.upperBound.wholeMilliseconds)
    }

    /// Adds the pause that the upstream asked for, and its limit, in milliseconds.
    mutating func add(pauseMilliseconds milliseconds: Int64?, atMostMilliseconds maximumMilliseconds: Int64) {
        guard let milliseconds else { return }
        add("pause", milliseconds)
        add("longest", maximumMilliseconds)
    }

    mutating func add(_ sums: OutcomeSums) {
        add("calls", sums.calls)
        add("failures", sums.failures)
        add("slow", sums.slow)
        add("trailing", sums.trailingFailures)
    }

    /// Adds the window and the conditions under which the breaker trips.
    mutating func add(rulesOf settings: BreakerSettings) {
        switch settings.window {
        case .time(let length): add("window", length.wholeMilliseconds)
        case .calls(let count): add("window_calls", count)
        }
        add("slices", BreakerSettings.windowSlices)
        add("minimum", settings.minimumCalls)
        add("failure_rate", settings.failureRate)
        if settings.slowCall != nil { add("slow_rate", settings.slowRate) }
        add("consecutive", settings.consecutiveFailures)
        if !settings.isMetricsOnly, !settings.isDecidedByVotes { add("judge", true) }
    }

    private mutating func add(_ name: String, raw value: String) {
        if !members.isEmpty { members += "," }
        members += "\"\(name)\":\(value)"
    }
}

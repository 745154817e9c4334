internal import Hiredis
internal import InterlockCore

/// See `breaker.lua`.
struct BreakerScript: ScriptCommand {
    /// How many changes the history keeps, roughly.
    static let historyLength = 1000

    static let source = RedisScript(name: "breaker.lua", source: PackageResources.breaker_lua)

    var keys: KeySpace
    var service: String
    var settings: BreakerSettings
    var operation: BreakerOperation
    var by: String
    var origin: String
    var database: Int
    /// 0…1.
    var random: Double

    var script: RedisScript { Self.source }
    var keyCount: Int { 6 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(keys.breaker(service))
        encoder.append(keys.breakerHistory(service))
        encoder.append(keys.breakerWindow(service, settings.window))
        encoder.append(keys.breakerTrials(service))
        encoder.append(keys.breakerVotes(service))
        encoder.append(keys.breakerWindowBefore(service))
        encoder.append(call)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> BreakerReply {
        guard let parts = reply.array, parts.count == 3, let result = parts[0].integer, let time = parts[1].integer,
            let flat = parts[2].array
        else { throw reply.unexpected(for: "breaker.lua") }
        var fields: [String: String] = [:]
        for index in stride(from: 0, to: flat.count - 1, by: 2) {
            if let name = flat[index].text, let value = flat[index + 1].text { fields[name] = value }
        }
        return BreakerReply(
            isDone: result == 1, redisTime: time, snapshot: BreakerSnapshot(hash: fields),
            configuration: fields["configuration"])
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
        switch operation {
        case .sync(let known, let configuration, let declares):
            call.add("op", text: "sync")
            call.add("configuration", text: configuration)
            if declares { call.add("declares", true) }
            if let known { call.add("known", object: known.hash) }
        case .report(let sums, let expect, let retryAfter):
            call.add("op", text: "report")
            call.add(expect: expect)
            call.add(sums)
            call.add(rulesOf: settings)
            call.add(openFor: settings.openFor)
            call.add("retry_after", retryAfter)
        case .vote(let cause, let expect, let pause):
            call.add("op", text: "vote")
            call.add(expect: expect)
            call.add("cause", text: cause.rawValue)
            call.add("reporters", settings.reporters)
            let ownPause = pause ?? settings.openFor.lowerBound.wholeMilliseconds
            call.add("lapse", settings.voteMilliseconds(pause: ownPause))
            call.add(openFor: settings.openFor)
            call.add(pause: pause, atMost: settings.longestPause)
        case .trip(let cause, let expect, let openFor, let pause):
            call.add("op", text: "trip")
            call.add(expect: expect)
            call.add("cause", text: cause.rawValue)
            call.add(openFor: openFor)
            call.add(pause: pause, atMost: settings.longestPause)
        case .halfOpen(let expect):
            call.add("op", text: "half")
            call.add(expect: expect)
        case .trial(let id, let lifetime, let known):
            call.add("op", text: "trial")
            call.add("at_least", text: "\(known)")
            call.add("id", text: id)
            call.add("permits", settings.halfOpenPermits)
            call.add("lifetime", lifetime)
        case .trialOutcome(let id, let outcome, let expect, let retryAfter, let pause):
            call.add("op", text: "outcome")
            call.add(expect: expect)
            call.add("id", text: id)
            call.add("outcome", text: outcome.rawValue)
            call.add("permits", settings.halfOpenPermits)
            call.add(openFor: settings.openFor)
            call.add("retry_after", retryAfter)
            call.add(pause: pause, atMost: settings.longestPause)
        case .close(let cause, let expect):
            call.add("op", text: "close")
            call.add(expect: expect)
            call.add("cause", text: cause.rawValue)
        case .down(let reason, let lapse, let quorum, let isSeconding, let known):
            call.add("op", text: "down")
            call.add("at_least", text: "\(known)")
            call.add("reason", text: reason)
            call.add("lapse", lapse)
            call.add("quorum", quorum)
            if isSeconding { call.add("seconds", true) }
        case .up(let expect, let isFollowedByTrial, let quorum):
            call.add("op", text: "up")
            call.add(expect: expect)
            if isFollowedByTrial { call.add("trial", true) }
            call.add("quorum", quorum)
        case .force(let state, let milliseconds, let reason, let known):
            call.add("op", text: "force")
            call.add("at_least", text: "\(known)")
            call.add("state", text: state?.rawValue ?? "auto")
            call.add("cause", text: (state == nil ? BreakerCause.auto : .forced).rawValue)
            call.add("reason", text: reason)
            call.add("for", milliseconds)
        }
        return call.json
    }
}

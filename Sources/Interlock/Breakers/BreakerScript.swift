internal import FoundationEssentials
internal import Hiredis
internal import InterlockCore

/// See `breaker.lua`.
struct BreakerScript: ScriptCommand {
    /// What is asked, and its own arguments.
    enum Operation {
        /// Reads; restores what Redis has lost from `known`.
        case sync(known: BreakerSnapshot?)
        case report(OutcomeSums, expect: Int64, retryAfter: Int64?)
        case trip(cause: String, expect: Int64, pause: ClosedRange<Duration>)
        case halfOpen(expect: Int64)
        case trial(id: String, lifetime: Int64)
        case trialOutcome(id: String, Outcome, expect: Int64, retryAfter: Int64?)
        case close(cause: String, expect: Int64)
        case force(BreakerSnapshot.Forced?)
    }

    struct Reply {
        /// The call did what it asked for.
        var isDone: Bool
        var redisTime: Int64
        var snapshot: BreakerSnapshot
    }

    /// How many changes the history keeps, roughly.
    static let historyLength = 1000

    static let source = RedisScript(name: "breaker.lua", source: PackageResources.breaker_lua)

    var keys: KeySpace
    var service: String
    var settings: BreakerSettings
    var operation: Operation
    var by: String
    var origin: String
    var database: Int
    /// 0…1.
    var random: Double

    var script: RedisScript { Self.source }
    var keyCount: Int { 4 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(keys.breaker(service))
        encoder.append(keys.breakerHistory(service))
        encoder.append(keys.breakerWindow(service))
        encoder.append(keys.breakerTrials(service))
        encoder.append(call)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        guard let parts = reply.array, parts.count == 3, let result = parts[0].integer, let time = parts[1].integer,
            let flat = parts[2].array
        else { throw reply.unexpected(for: "breaker.lua") }
        var fields: [String: String] = [:]
        for index in stride(from: 0, to: flat.count - 1, by: 2) {
            if let name = flat[index].text, let value = flat[index + 1].text { fields[name] = value }
        }
        return Reply(isDone: result == 1, redisTime: time, snapshot: BreakerSnapshot(hash: fields))
    }

    private var call: String {
        var fields: [(String, String)] = [
            ("service", JSONText.quoted(service)), ("by", JSONText.quoted(by)), ("origin", JSONText.quoted(origin)),
            ("db", "\(database)"), ("channel", JSONText.quoted(keys.events)), ("history", "\(Self.historyLength)"),
            ("random", "\(random)"),
        ]
        func add(_ name: String, _ value: String) { fields.append((name, value)) }
        func add(openFor range: ClosedRange<Duration>) {
            add("open_min", "\(range.lowerBound.wholeMilliseconds)")
            add("open_max", "\(range.upperBound.wholeMilliseconds)")
        }
        // As a string: a JSON number of Lua's keeps 14 digits.
        func add(expect generation: Int64) { add("expect", "\"\(generation)\"") }
        func add(retryAfter: Int64?) { if let retryAfter { add("retry_after", "\(retryAfter)") } }
        switch operation {
        case .sync(let known):
            add("op", "\"sync\"")
            if let known { add("known", known.hashAsJSON) }
        case .report(let sums, let expect, let retryAfter):
            add("op", "\"report\"")
            add(expect: expect)
            add("calls", "\(sums.calls)")
            add("failures", "\(sums.failures)")
            add("slow", "\(sums.slow)")
            if case .time(let window) = settings.window { add("window", "\(window.wholeMilliseconds)") }
            add("minimum", "\(settings.minimumCalls)")
            add("failure_rate", "\(settings.failureRate)")
            if settings.slowCall != nil { add("slow_rate", "\(settings.slowRate)") }
            add(openFor: settings.openFor)
            add(retryAfter: retryAfter)
        case .trip(let cause, let expect, let pause):
            add("op", "\"trip\"")
            add(expect: expect)
            add("cause", JSONText.quoted(cause))
            add(openFor: pause)
        case .halfOpen(let expect):
            add("op", "\"half\"")
            add(expect: expect)
        case .trial(let id, let lifetime):
            add("op", "\"trial\"")
            add("id", JSONText.quoted(id))
            add("permits", "\(settings.halfOpenPermits)")
            add("lifetime", "\(lifetime)")
        case .trialOutcome(let id, let outcome, let expect, let retryAfter):
            add("op", "\"outcome\"")
            add(expect: expect)
            add("id", JSONText.quoted(id))
            add("outcome", "\"\(outcome.rawValue)\"")
            add("permits", "\(settings.halfOpenPermits)")
            add(openFor: settings.openFor)
            add(retryAfter: retryAfter)
        case .close(let cause, let expect):
            add("op", "\"close\"")
            add(expect: expect)
            add("cause", JSONText.quoted(cause))
        case .force(let state):
            add("op", "\"force\"")
            add("state", "\"\(state?.rawValue ?? "auto")\"")
            add("cause", state == nil ? "\"auto\"" : "\"forced\"")
        }
        return "{" + fields.map { "\"\($0.0)\":\($0.1)" }.joined(separator: ",") + "}"
    }
}

extension BreakerSnapshot {
    /// From the fields of the hash; what is missing has its default.
    init(hash: [String: String]) {
        func number(_ name: String) -> Int64 { hash[name].flatMap(Int64.init) ?? 0 }
        self.init(
            state: hash["state"].flatMap(State.init) ?? .closed,
            cause: hash["cause"] ?? "",
            sinceMilliseconds: number("since"),
            untilMilliseconds: number("until"),
            generation: number("generation"),
            trips: number("trips"),
            failureRate: hash["failure_rate"].flatMap(Double.init) ?? 0,
            slowRate: hash["slow_rate"].flatMap(Double.init) ?? 0,
            calls: number("calls"),
            by: hash["by"] ?? "",
            forced: hash["forced"].flatMap(Forced.init))
    }

    fileprivate var hashAsJSON: String {
        let fields: [(String, String)] = [
            ("state", state.rawValue), ("cause", cause), ("since", "\(sinceMilliseconds)"), ("until", "\(untilMilliseconds)"),
            ("generation", "\(generation)"), ("trips", "\(trips)"), ("failure_rate", "\(failureRate)"),
            ("slow_rate", "\(slowRate)"), ("calls", "\(calls)"), ("by", by), ("forced", forced?.rawValue ?? ""),
            ("successes", "0"),
        ]
        return "{" + fields.map { "\"\($0.0)\":\(JSONText.quoted($0.1))" }.joined(separator: ",") + "}"
    }
}

import InterlockCore
import InterlockLoad

@testable import Interlock
@testable import InterlockLoad

/// Sends the same calls to the model's breaker and to the real script, at the same times, until they differ.
struct BreakerDuel {
    private static let start: Int64 = 1_760_000_000_000_000
    private static let service = "api"
    private static let sidecars = ["a1", "b2", "c3"]
    static let keys = KeySpace()

    private let redis: SteeredRedis
    private let recorder: MessageRecorder
    private let seed: UInt64
    private var random: SeededRandom
    private var model: ModelRedis
    private let configurations: [BreakerSettings]
    /// What the callers know; it may be out of date.
    private var known = BreakerSnapshot()
    private var trials: [String] = []

    init(seed: UInt64, redis: SteeredRedis, recorder: MessageRecorder, mutant: Mutant? = nil) {
        self.seed = seed
        self.redis = redis
        self.recorder = recorder
        var random = SeededRandom(seed: seed)
        configurations = (0..<2).map { _ in Self.settings(&random) }
        model = ModelRedis(microseconds: Self.start, mutant: mutant)
        self.random = random
    }

    /// What the first difference is, with all that is needed to have it again; `nil`: there is none.
    mutating func fight(rounds: Int) async throws -> String? {
        _ = try await redis.send("FLUSHALL")
        _ = try await recorder.take()
        var told: [ModelRedis.Message] = []
        for round in 0..<rounds {
            model.microseconds += step()
            try redis.show(microseconds: model.microseconds)
            if random.happens(0.01) {
                _ = try await redis.send("FLUSHALL")
                model.wipe()
            }
            var all = try await call().map { [$0] } ?? []
            all += try await redis.differences(from: &model)
            told += model.takePublished()
            if round == rounds - 1 {
                let heard = try await recorder.take()
                if heard != told { all.append("published: \(heard), and \(told)") }
            }
            guard all.isEmpty else {
                return "seed \(seed), round \(round), at \(model.microseconds) µs, script and model: "
                    + all.joined(separator: "; ")
            }
        }
        return told.isEmpty ? "nothing was published" : nil
    }

    private mutating func call() async throws -> String? {
        let settings = configurations.randomElement(using: &random) ?? BreakerSettings()
        let sidecar = Self.sidecars.randomElement(using: &random) ?? ""
        let operation = operation(settings)
        let chance = random.unit()
        let real = try await redis.run(
            BreakerScript(
                keys: Self.keys, service: Self.service, settings: settings, operation: operation, by: sidecar + " ops",
                origin: sidecar, database: 0, random: chance))
        let modelled = model.breaker(
            ModelRedis.BreakerCall(
                service: Self.service, settings: settings, operation: operation, by: sidecar + " ops", origin: sidecar,
                random: chance),
            keys: Self.keys)
        if random.happens(0.9) { known = real.snapshot }
        return real == modelled ? nil : "\(operation) with \(settings): \(real), and \(modelled)"
    }

    private mutating func operation(_ settings: BreakerSettings) -> BreakerOperation {
        let expect = random.happens(0.9) ? known.generation : known.generation - 1
        let pause = random.happens(0.2) ? Int64.random(in: 1...5000, using: &random) : nil
        let retryAfter = random.happens(0.1) ? Int64.random(in: 1...5000, using: &random) : nil
        let quorum = random.happens(0.5) ? 2 : nil
        switch Int.random(in: 0..<100, using: &random) {
        case ..<8:
            let configuration = random.happens(0.5) ? "one" : "two"
            return .sync(
                known: random.happens(0.7) ? known : nil, configuration: configuration, declares: random.happens(0.3))
        case ..<40:
            return .report(sums(), expect: expect, retryAfter: retryAfter)
        case ..<46:
            return .vote(random.happens(0.5) ? .failures : .slow, expect: expect, pause: pause)
        case ..<50:
            let openFor = Duration.milliseconds(100)...Duration.milliseconds(900)
            return .trip(random.happens(0.5) ? .limit : .retryAfter, expect: expect, openFor: openFor, pause: pause)
        case ..<60:
            return .halfOpen(expect: expect)
        case ..<74:
            let id = "\(trials.count)"
            trials.append(id)
            return .trial(id: id, lifetime: .random(in: 1...3000, using: &random), known: expect)
        case ..<86:
            let id = trials.suffix(6).randomElement(using: &random) ?? ""
            let outcome: Outcome = random.happens(0.6) ? .ok : random.happens(0.5) ? .error : .ignore
            return .trialOutcome(id: id, outcome, expect: expect, retryAfter: retryAfter, pause: pause)
        case ..<90:
            return .close(random.happens(0.3) ? .auto : .limit, expect: expect)
        case ..<94:
            return .down(reason: "GET /status: \"502\" \\ ü", lapse: .random(in: 1...3000, using: &random), quorum: quorum)
        case ..<97:
            return .up(expect: expect, isFollowedByTrial: random.happens(0.5), quorum: quorum)
        default:
            let forced: [BreakerSnapshot.Forced?] = [nil, .open, .closed, .disabled]
            let state = forced.randomElement(using: &random) ?? nil
            let end = random.happens(0.8) ? Int64.random(in: 1...1000, using: &random) : nil
            return .force(state, forMilliseconds: state == nil ? nil : end, reason: "a test")
        }
    }

    private mutating func sums() -> OutcomeSums {
        var sums = OutcomeSums()
        let share = random.unit()
        for _ in 0..<Int.random(in: 1...(random.happens(0.9) ? 12 : 200), using: &random) {
            sums.add(isFailure: random.happens(share), isSlow: random.happens(0.3))
        }
        return sums
    }

    /// How far the clock moves, in microseconds.
    private mutating func step() -> Int64 {
        switch random.unit() {
        case ..<0.1: 0
        case ..<0.7: .random(in: 0...100_000, using: &random)
        case ..<0.95: .random(in: 0...2_000_000, using: &random)
        case ..<0.97: .random(in: 0...100_000_000, using: &random)
        default: -.random(in: 0...3_000_000, using: &random)
        }
    }

    private static func settings(_ random: inout SeededRandom) -> BreakerSettings {
        let isOfTime = random.happens(0.6)
        let length = Duration.milliseconds(Int64.random(in: 5...5000, using: &random))
        return BreakerSettings(
            failureRate: Double(Int.random(in: 30...100, using: &random)) / 100,
            slowCall: random.happens(0.5) ? .seconds(1) : nil, slowRate: 0.6,
            window: isOfTime ? .time(length) : .calls(.random(in: 5...100, using: &random)),
            minimumCalls: .random(in: 1...30, using: &random),
            consecutiveFailures: random.happens(0.3) ? .random(in: 2...20, using: &random) : nil,
            reporters: random.happens(0.8) ? 1 : 2, openFor: .milliseconds(500) ... .milliseconds(5000),
            halfOpenPermits: .random(in: 1...4, using: &random), isMetricsOnly: random.happens(0.1))
    }
}

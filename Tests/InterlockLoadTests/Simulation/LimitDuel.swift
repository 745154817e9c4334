import InterlockCore
import InterlockLoad

@testable import Interlock
@testable import InterlockLoad

/// Sends the same takes and give-backs to the model and to the real scripts, at the same times, until they differ.
struct LimitDuel {
    private static let start: Int64 = 1_760_000_000_000_000
    private static let windows: [Int64] = [1, 7, 100, 777, 1000, 60_000, 3_600_000]
    private static let service = "api"
    private static let keys = KeySpace()

    private let redis: SteeredRedis
    private let seed: UInt64
    private var random: SeededRandom
    private var model: ModelRedis
    /// The service is configured now this way, now that: counters outlive their limits.
    private let configurations: [[LimitDefinition]]
    private var taken: [TakenShare] = []

    init(seed: UInt64, redis: SteeredRedis, mutant: Mutant? = nil) {
        self.seed = seed
        self.redis = redis
        var random = SeededRandom(seed: seed)
        configurations = (0..<3).map { _ in Self.configuration(&random) }
        model = ModelRedis(microseconds: Self.start, mutant: mutant)
        self.random = random
    }

    /// What the first difference is, with all that is needed to have it again; `nil`: there is none.
    mutating func fight(rounds: Int) async throws -> String? {
        _ = try await redis.send("FLUSHALL")
        for round in 0..<rounds {
            model.microseconds += step()
            try redis.show(microseconds: model.microseconds)
            let difference = random.happens(0.2) ? try await giveBack() : try await take()
            let all = try await (difference.map { [$0] } ?? []) + redis.differences(from: &model)
            guard all.isEmpty else {
                return "seed \(seed), round \(round), at \(model.microseconds) µs, script and model: "
                    + all.joined(separator: "; ")
            }
        }
        return nil
    }

    private mutating func take() async throws -> String? {
        let definitions = configurations.randomElement(using: &random) ?? []
        let now = Instant(nanoseconds: 1_000_000_000)
        var limiter = ServiceLimiter(definitions: definitions, maximumWaiting: 100)
        for id in 0..<Int.random(in: 1...8, using: &random) {
            let waits = random.happens(0.4)
            let request = LimitRequest(
                id: id, count: waits ? 1 : .random(in: 1...5, using: &random),
                cost: random.happens(0.5) ? 1 : .random(in: 1...4, using: &random),
                subject: random.happens(0.6) ? ["a", "b", "c"].randomElement(using: &random) : nil,
                deadline: waits ? now.advanced(byMilliseconds: 1000) : nil)
            _ = limiter.admit(request, now: now)
        }
        guard let batch = limiter.nextBatch(now: now) else { return nil }
        let real = try await redis.run(TakeScript(keys: Self.keys, service: Self.service, batch: batch))
        let modelled = model.take(batch, of: Self.service, keys: Self.keys)
        for place in batch.requests.indices {
            taken += batch.shares(ofRequestAt: place, calls: 1, by: real, service: Self.service, keys: Self.keys)
        }
        taken = taken.suffix(50)
        return real == modelled ? nil : "\(batch.runs) of \(definitions): \(real), and \(modelled)"
    }

    private mutating func giveBack() async throws -> String? {
        guard let first = taken.indices.randomElement(using: &random) else { return nil }
        let shares = Array(taken[first...].prefix(.random(in: 1...3, using: &random)))
        let real = try await redis.run(GiveBackScript(shares: shares))
        let modelled = model.giveBack(shares)
        return real == modelled ? nil : "\(shares): \(real), and \(modelled)"
    }

    /// How far the clock moves, in microseconds.
    private mutating func step() -> Int64 {
        let window = (Self.windows.dropLast().randomElement(using: &random) ?? 1) * 1000
        return switch random.unit() {
        case ..<0.15: 0
        case ..<0.55: .random(in: 0...3000, using: &random)
        case ..<0.9: .random(in: 0...(window * 6 / 5), using: &random)
        default: -.random(in: 0...window, using: &random)
        }
    }

    private static func configuration(_ random: inout SeededRandom) -> [LimitDefinition] {
        (0..<Int.random(in: 1...4, using: &random)).compactMap { number in
            let window = windows.randomElement(using: &random) ?? 1
            let limit = Int64.random(in: 1...(random.happens(0.8) ? 12 : 1000), using: &random)
            let algorithm: LimitAlgorithm =
                switch random.unit() {
                case ..<0.4: .fixed
                case ..<0.7: .sliding
                default: .gcra(burst: .random(in: 0...10, using: &random))
                }
            let definition = LimitDefinition(
                name: "\(number)", limit: limit, window: .milliseconds(window), algorithm: algorithm,
                isPerSubject: random.happens(0.3), isShadow: random.happens(0.2))
            return definition.cellRate.isExact ? definition : nil
        }
    }
}

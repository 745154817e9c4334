internal import Hiredis
internal import InterlockCore

/// See `take.lua`.
struct TakeScript: ScriptCommand {
    static let source = RedisScript(library: "take")

    var keys: KeySpace
    var service: String
    var batch: LimitBatch

    var script: RedisScript { Self.source }
    var keyCount: Int { batch.counters.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        let starts = batch.definitions.map { keys.rate(service: service, of: $0) }
        for counter in batch.counters {
            if let subject = counter.subject {
                encoder.append(parts: starts[counter.definition], KeySpace.subjectSeparator, subject)
            } else {
                encoder.append(starts[counter.definition])
            }
        }
        var numbers = PackedNumbers(
            capacity: 3 + 5 * batch.definitions.count + 2 * batch.counters.count)
        numbers.append(batch.serviceWideCount)
        numbers.append(batch.perSubjectCount)
        for definition in batch.definitionsInOrder {
            numbers.append(definition, algorithm: definition.algorithm.scriptNumber, isShadow: definition.isShadow)
        }
        let base = batch.counters.reduce(Int64.max) { $1.endsAt == 0 ? $0 : min($0, $1.endsAt) }
        numbers.append(base == .max ? 0 : base)
        for counter in batch.counters { numbers.append(counter.endsAt == 0 ? 0 : counter.endsAt - base + 1) }
        for counter in batch.counters { numbers.append(counter.asked) }
        encoder.append(numbers.bytes)
        var runs = PackedNumbers(capacity: 4 * batch.runs.count)
        for run in batch.runs {
            runs.append(run.count)
            runs.append(run.cost)
            runs.append(run.waits ? 1 : 0)
            runs.append(run.group)
        }
        encoder.append(runs.bytes)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> LimitVerdict {
        guard case .bulk(let bytes) = reply, var numbers = PackedNumberReader(bytes), let verdict = verdict(&numbers),
            numbers.isAtEnd
        else { throw reply.unexpected(for: Self.source.name) }
        return verdict
    }

    /// `nil`: it is none.
    private func verdict(_ numbers: inout PackedNumberReader) -> LimitVerdict? {
        let capacities = batch.counters.lazy.map { batch.definitions[$0.definition].capacity }
        guard let (time, areAllGranted, counters) = LimitVerdict.counters(of: capacities, from: &numbers) else { return nil }
        var verdict = LimitVerdict(timeMicroseconds: time, counters: counters, runs: [])
        guard !areAllGranted else { return verdict }
        verdict.runs.reserveCapacity(batch.runs.count)
        for run in batch.runs {
            guard let granted = numbers.next(), (0...Int64(run.count)).contains(granted) else { return nil }
            var decided = LimitVerdict.Run(granted: Int(granted), binding: 0, retryAfterMicroseconds: 0)
            if granted < run.count {
                guard let binding = numbers.next(), batch.counters.indices.contains(Int(binding)), let wait = numbers.next()
                else { return nil }
                decided.binding = Int(binding)
                decided.retryAfterMicroseconds = wait
            }
            verdict.runs.append(decided)
        }
        return verdict
    }
}

extension LimitVerdict {
    /// What `reply.lua` tells first; `nil`: it is none.
    /// - Parameter capacities: of each counter.
    static func counters(
        of capacities: some Collection<Int64>, from numbers: inout PackedNumberReader
    ) -> (timeMicroseconds: Int64, areAllGranted: Bool, counters: [Counter])? {
        guard let time = numbers.next(), let areAllGranted = numbers.next() else { return nil }
        var counters: [Counter] = []
        counters.reserveCapacity(capacities.count)
        for capacity in capacities {
            guard let count = numbers.next(), let resetAfter = numbers.next() else { return nil }
            counters.append(Counter(count: count, capacity: capacity, resetAfter: resetAfter))
        }
        guard areAllGranted == 0 else { return (time, true, counters) }
        for index in counters.indices {
            guard let excess = numbers.next() else { return nil }
            counters[index].excess = excess
        }
        return (time, false, counters)
    }
}

extension PackedNumbers {
    /// A limit as `batch.lua` reads it.
    mutating func append(_ limit: LimitDefinition, algorithm: Int, isShadow: Bool) {
        append(algorithm)
        append(limit.capacity)
        append(limit.limit)
        append(limit.windowMilliseconds)
        append(isShadow ? 1 : 0)
    }
}

extension LimitAlgorithm {
    /// What the scripts call it.
    var scriptNumber: Int {
        switch self {
        case .fixed: 0
        case .sliding: 1
        case .gcra: 2
        }
    }
}

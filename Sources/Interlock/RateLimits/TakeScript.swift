internal import Hiredis
internal import InterlockCore

/// See `take.lua`.
struct TakeScript: ScriptCommand {
    static let source = RedisScript(name: "take.lua", source: PackageResources.counters_lua + PackageResources.take_lua)

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
            capacity: 3 + 5 * batch.definitions.count + batch.counters.count + 4 * batch.runs.count)
        numbers.append(batch.serviceWideCount)
        numbers.append(batch.perSubjectCount)
        for definition in batch.definitionsInOrder {
            numbers.append(definition.algorithm.scriptNumber)
            numbers.append(definition.capacity)
            numbers.append(definition.limit)
            numbers.append(definition.windowMilliseconds)
            numbers.append(definition.isShadow ? 1 : 0)
        }
        let base = batch.counters.reduce(Int64.max) { $1.endsAt == 0 ? $0 : min($0, $1.endsAt) }
        numbers.append(base == .max ? 0 : base)
        for counter in batch.counters { numbers.append(counter.endsAt == 0 ? 0 : counter.endsAt - base + 1) }
        for run in batch.runs {
            numbers.append(run.count)
            numbers.append(run.cost)
            numbers.append(run.waits ? 1 : 0)
            numbers.append(run.group)
        }
        encoder.append(numbers.bytes)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> LimitVerdict {
        guard case .bulk(let bytes) = reply, var numbers = PackedNumberReader(bytes),
            numbers.count == 1 + 3 * batch.counters.count + 3 * batch.runs.count, let time = numbers.next()
        else { throw reply.unexpected(for: Self.source.name) }
        var verdict = LimitVerdict(timeMicroseconds: time, counters: [], runs: [])
        verdict.counters.reserveCapacity(batch.counters.count)
        for counter in batch.counters {
            guard let count = numbers.next(), let resetAfter = numbers.next(), let excess = numbers.next() else {
                throw reply.unexpected(for: Self.source.name)
            }
            verdict.counters.append(
                LimitVerdict.Counter(
                    count: count, capacity: batch.definitions[counter.definition].capacity, resetAfter: resetAfter,
                    excess: excess))
        }
        verdict.runs.reserveCapacity(batch.runs.count)
        for run in batch.runs {
            guard let granted = numbers.next(), let binding = numbers.next(), let retryAfter = numbers.next(),
                (0...Int64(run.count)).contains(granted), batch.counters.indices.contains(Int(binding))
            else { throw reply.unexpected(for: Self.source.name) }
            verdict.runs.append(
                LimitVerdict.Run(granted: Int(granted), binding: Int(binding), retryAfterMicroseconds: retryAfter))
        }
        return verdict
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

internal import InterlockCore
internal import RedisClient

/// Decides a batch of requests and takes the granted amounts. See `take.lua`.
struct TakeScript: ScriptCommand {
    /// The owner of the counters.
    enum Scope {
        case service(String)
        case domain(String)
    }

    static let source = RedisScript(library: "take")

    var keys: KeySpace
    var scope: Scope
    var batch: LimitBatch

    var script: RedisScript { Self.source }
    var keyCount: Int { batch.counters.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encodeKeys(into: &encoder)
        encoder.append(packedCounters().bytes)
        var runs = PackedNumbers(capacity: 1 + 3 * batch.runs.count + 2 * batch.charges.count)
        runs.append(batch.mode.rawValue)
        for run in batch.runs {
            runs.append(run.count)
            runs.append(run.waits ? 1 : 0)
            runs.append(run.charges.count)
            for charge in batch.charges[run.charges] {
                runs.append(charge.counterIndex)
                runs.append(charge.cost)
            }
        }
        encoder.append(runs.bytes)
        if batch.hasRefunds { encoder.append("1") }
    }

    private func encodeKeys(into encoder: inout CommandEncoder) {
        switch scope {
        case .service(let name):
            let starts = batch.definitions.map { keys.rate(service: name, of: $0) }
            for counter in batch.counters {
                if let subject = counter.name {
                    encoder.append(parts: starts[counter.definitionIndex], KeySpace.subjectSeparator, subject)
                } else {
                    encoder.append(starts[counter.definitionIndex])
                }
            }
        case .domain(let name):
            let start = keys.descriptors(ofDomain: name)
            for counter in batch.counters {
                let limit = keys.descriptorLimit(
                    batch.definitions[counter.definitionIndex], isAligned: counter.isAligned)
                encoder.append(parts: start, counter.name ?? "", limit)
            }
        }
    }

    /// The limits and counters as `batch.lua` reads them.
    private func packedCounters() -> PackedNumbers {
        var numbers = PackedNumbers(capacity: 3 + 5 * batch.order.count + 2 * batch.counters.count)
        numbers.append(batch.sharedCount)
        numbers.append(batch.perSubjectCount)
        for (position, index) in batch.order.enumerated() {
            let limit = batch.definitions[index]
            // Only limits with one counter each can be aligned.
            let isAligned = position < batch.sharedCount && batch.counters[position].isAligned
            numbers.append(isAligned ? 3 : limit.algorithm.scriptNumber)
            numbers.append(limit.capacity)
            numbers.append(limit.limit)
            numbers.append(limit.windowMilliseconds)
            numbers.append(limit.isShadow ? 1 : 0)
        }
        let baseMilliseconds = batch.counters.reduce(Int64.max) {
            $1.endsAtMilliseconds == 0 ? $0 : min($0, $1.endsAtMilliseconds)
        }
        numbers.append(baseMilliseconds == .max ? 0 : baseMilliseconds)
        for counter in batch.counters {
            numbers.append(counter.endsAtMilliseconds == 0 ? 0 : counter.endsAtMilliseconds - baseMilliseconds + 1)
        }
        for counter in batch.counters { numbers.append(counter.requestedCost) }
        return numbers
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> BatchVerdict {
        guard case .bulk(let bytes) = reply, var numbers = PackedNumberReader(bytes), let verdict = verdict(&numbers),
            numbers.isAtEnd
        else { throw reply.unexpected(for: Self.source.name) }
        return verdict
    }

    /// Reads the verdict; returns `nil` if the numbers are not a verdict on this batch.
    private func verdict(_ numbers: inout PackedNumberReader) -> BatchVerdict? {
        guard let microseconds = numbers.next(), let areAllGranted = numbers.next() else { return nil }
        var verdict = BatchVerdict(timeMicroseconds: microseconds, counters: [])
        verdict.counters.reserveCapacity(batch.counters.count)
        for counter in batch.counters {
            guard let count = numbers.next(), let resetAfterMilliseconds = numbers.next() else { return nil }
            let capacity = batch.definitions[counter.definitionIndex].capacity
            verdict.counters.append(
                BatchVerdict.Counter(count: count, capacity: capacity, resetAfterMilliseconds: resetAfterMilliseconds))
        }
        guard areAllGranted == 0 else { return verdict }
        for index in verdict.counters.indices {
            guard let excess = numbers.next() else { return nil }
            verdict.counters[index].excess = excess
        }
        verdict.fits.reserveCapacity(batch.charges.count)
        for run in batch.runs {
            guard let fitsAll = numbers.next() else { return nil }
            for _ in run.charges {
                var fit = BatchVerdict.Fit(count: run.count)
                if fitsAll == 0 {
                    guard let count = numbers.next(), (0...Int64(run.count)).contains(count),
                        let retryAfterMicroseconds = numbers.next()
                    else { return nil }
                    fit = BatchVerdict.Fit(count: Int(count), retryAfterMicroseconds: retryAfterMicroseconds)
                }
                verdict.fits.append(fit)
            }
        }
        return verdict
    }
}

extension LimitAlgorithm {
    /// The algorithm's number in the scripts.
    var scriptNumber: Int {
        switch self {
        case .fixed: 0
        case .sliding: 1
        case .gcra: 2
        }
    }
}

internal import Hiredis
internal import InterlockCore

/// See `descriptors.lua`.
struct DescriptorScript: ScriptCommand {
    static let source = RedisScript(library: "descriptors")

    var keys: KeySpace
    var domain: String
    var batch: DescriptorBatch

    var script: RedisScript { Self.source }
    var keyCount: Int { batch.counters.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        let start = keys.descriptors(ofDomain: domain)
        for counter in batch.counters {
            encoder.append(
                parts: start, counter.name, keys.descriptorLimit(counter.limit, isAligned: counter.isAligned))
        }
        var numbers = PackedNumbers(capacity: 3 + 7 * batch.counters.count)
        numbers.append(batch.counters.count)
        numbers.append(0)
        for counter in batch.counters {
            let algorithm = counter.isAligned ? 3 : counter.limit.algorithm.scriptNumber
            numbers.append(counter.limit, algorithm: algorithm, isShadow: counter.isShadow)
        }
        // When fixed windows end is not known here.
        numbers.append(0)
        for _ in batch.counters { numbers.append(0) }
        for counter in batch.counters { numbers.append(counter.asked) }
        encoder.append(numbers.bytes)
        var runs = PackedNumbers(capacity: 1 + 2 * batch.runs.count + 3 * batch.charges.count)
        runs.append(batch.countsRefused ? 2 : batch.isIndependent ? 1 : 0)
        for run in batch.runs {
            runs.append(run.count)
            runs.append(run.charges.count)
            for charge in batch.charges[run.charges] {
                runs.append(charge.counter)
                runs.append(abs(charge.cost))
                runs.append(charge.cost < 0 ? 1 : 0)
            }
        }
        encoder.append(runs.bytes)
        encoder.append(batch.givesBack ? "1" : "0")
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> DescriptorVerdict {
        guard case .bulk(let bytes) = reply, var numbers = PackedNumberReader(bytes), let verdict = verdict(&numbers),
            numbers.isAtEnd
        else { throw reply.unexpected(for: Self.source.name) }
        return verdict
    }

    /// `nil`: it is none.
    private func verdict(_ numbers: inout PackedNumberReader) -> DescriptorVerdict? {
        let capacities = batch.counters.lazy.map(\.limit.capacity)
        guard let (time, areAllGranted, counters) = LimitVerdict.counters(of: capacities, from: &numbers) else { return nil }
        var verdict = DescriptorVerdict(timeMicroseconds: time, counters: counters, fits: [])
        guard !areAllGranted else { return verdict }
        verdict.fits.reserveCapacity(batch.charges.count)
        for run in batch.runs {
            for _ in run.charges {
                guard let count = numbers.next(), (0...Int64(run.count)).contains(count), let wait = numbers.next() else {
                    return nil
                }
                verdict.fits.append(.init(count: Int(count), retryAfterMicroseconds: wait))
            }
        }
        return verdict
    }
}

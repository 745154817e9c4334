package import InterlockCore
internal import RedisClient

/// Refunds amounts that calls took but did not use. See `refund.lua`. The reply is the number of credited counters.
struct RefundScript: ScriptCommand {
    static let source = RedisScript(library: "refund")

    var charges: [CounterCharge]

    var script: RedisScript { Self.source }
    var keyCount: Int { charges.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        for charge in charges { encoder.append(charge.key) }
        for charge in charges {
            encoder.append(charge.limit.algorithm.scriptNumber)
            encoder.append(charge.cost)
            encoder.append(charge.windowTime)
            encoder.append(charge.limit.limit)
            encoder.append(charge.limit.windowMilliseconds)
            encoder.append(charge.limit.capacity)
        }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        guard let number = reply.integer else { throw reply.unexpected(for: Self.source.name) }
        return number
    }
}

extension ServiceBatch {
    /// Returns the amounts to refund for `calls` calls of the request at `requestIndex`; empty if Redis did not decide.
    package func charges(
        ofRequestAt requestIndex: Int, calls: Int, by verdict: BatchVerdict, service: String, keys: KeySpace
    ) -> [CounterCharge] {
        guard verdict.timeMicroseconds > 0 else { return [] }
        return counters(ofRequestAt: requestIndex).compactMap { index in
            let counter = limits.counters[index]
            let counterVerdict = verdict.counters[index]
            // The script does not report which calls a full shadow limit did not count.
            guard counterVerdict.excess == 0 else { return nil }
            let limit = limits.definitions[counter.definitionIndex]
            return CounterCharge(
                key: keys.rate(service: service, of: limit, subject: counter.name), limit: limit,
                definitionIndex: counter.definitionIndex, subject: counter.name,
                cost: requests[requestIndex].cost * Int64(calls),
                windowTime: Self.windowTime(limit.algorithm, counterVerdict, verdict))
        }
    }

    /// Returns the `windowTime` of a charge; see `CounterCharge`.
    private static func windowTime(
        _ algorithm: LimitAlgorithm, _ counterVerdict: BatchVerdict.Counter, _ verdict: BatchVerdict
    ) -> Int64 {
        switch algorithm {
        case .fixed: verdict.timeMicroseconds / 1000 + counterVerdict.resetAfterMilliseconds
        case .sliding: verdict.timeMicroseconds
        // One millisecond less, because the script rounds milliseconds up.
        case .gcra: verdict.timeMicroseconds + max(0, counterVerdict.resetAfterMilliseconds - 1) * 1000
        }
    }
}

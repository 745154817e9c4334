package import InterlockCore
internal import RedisClient

/// Refunds amounts that a call took but did not use. See `refund.lua`.
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
    /// Returns the amounts that `calls` calls of the request at `requestIndex` took, to be refunded; empty if Redis did
    /// not decide.
    package func charges(
        ofRequestAt requestIndex: Int, calls: Int, by verdict: BatchVerdict, service: String, keys: KeySpace
    ) -> [CounterCharge] {
        guard verdict.timeMicroseconds > 0 else { return [] }
        return counters(ofRequestAt: requestIndex).compactMap { index in
            let counter = limits.counters[index]
            let judged = verdict.counters[index]
            // The script does not report which calls a full shadow limit left uncounted.
            guard judged.excess == 0 else { return nil }
            let limit = limits.definitions[counter.definition]
            return CounterCharge(
                key: keys.rate(service: service, of: limit, subject: counter.name), limit: limit,
                definition: counter.definition, subject: counter.name, cost: requests[requestIndex].cost * Int64(calls),
                windowTime: Self.windowTime(limit.algorithm, judged, verdict))
        }
    }

    /// See `CounterCharge.windowTime`.
    private static func windowTime(
        _ algorithm: LimitAlgorithm, _ judged: BatchVerdict.Counter, _ verdict: BatchVerdict
    ) -> Int64 {
        switch algorithm {
        case .fixed: verdict.timeMicroseconds / 1000 + judged.resetAfter
        case .sliding: verdict.timeMicroseconds
        // The milliseconds were rounded up.
        case .gcra: verdict.timeMicroseconds + max(0, judged.resetAfter - 1) * 1000
        }
    }
}

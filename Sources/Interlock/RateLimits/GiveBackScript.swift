package import InterlockCore
internal import RedisClient

/// See `give-back.lua`.
struct GiveBackScript: ScriptCommand {
    static let source = RedisScript(library: "give-back")

    var shares: [TakenShare]

    var script: RedisScript { Self.source }
    var keyCount: Int { shares.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        for share in shares { encoder.append(share.key) }
        for share in shares {
            encoder.append(share.limit.algorithm.scriptNumber)
            encoder.append(share.cost)
            encoder.append(share.since)
            encoder.append(share.limit.limit)
            encoder.append(share.limit.windowMilliseconds)
            encoder.append(share.limit.capacity)
        }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        guard let number = reply.integer else { throw reply.unexpected(for: Self.source.name) }
        return number
    }
}

extension ServiceBatch {
    /// Returns the amounts that `calls` calls of the request at `place` took, to be refunded; empty if Redis did not
    /// decide.
    package func shares(
        ofRequestAt place: Int, calls: Int, by verdict: LimitVerdict, service: String, keys: KeySpace
    ) -> [TakenShare] {
        guard verdict.timeMicroseconds > 0 else { return [] }
        return counters(ofRequestAt: place).compactMap { index in
            let counter = limits.counters[index]
            let judged = verdict.counters[index]
            // The script does not report which calls a full shadow limit left uncounted.
            guard judged.excess == 0 else { return nil }
            let limit = limits.definitions[counter.definition]
            return TakenShare(
                key: keys.rate(service: service, of: limit, subject: counter.name), limit: limit,
                definition: counter.definition, subject: counter.name, cost: requests[place].cost * Int64(calls),
                since: Self.since(limit.algorithm, judged, verdict))
        }
    }

    /// See `TakenShare.since`.
    private static func since(_ algorithm: LimitAlgorithm, _ judged: LimitVerdict.Counter, _ verdict: LimitVerdict) -> Int64 {
        switch algorithm {
        case .fixed: verdict.timeMicroseconds / 1000 + judged.resetAfter
        case .sliding: verdict.timeMicroseconds
        // The milliseconds were rounded up.
        case .gcra: verdict.timeMicroseconds + max(0, judged.resetAfter - 1) * 1000
        }
    }
}

internal import InterlockCore
internal import RedisClient

/// See `quota.lua`.
struct QuotaScript: ScriptCommand {
    static let source = RedisScript(library: "quota")

    /// What a data plane asks of one bucket, in tokens for each fill.
    struct Bucket {
        /// As in the keys of counters.
        var name: String
        /// What stands behind it there.
        var limit: String
        /// The data plane, for this bucket.
        var dataPlane: String
        var rate: QuotaRate
        var needs: Int64
    }

    var keys: KeySpace
    var domain: String
    var keptMilliseconds: Int64
    var mostDataPlanes: Int
    var buckets: [Bucket]

    var script: RedisScript { Self.source }
    var keyCount: Int { buckets.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        let start = keys.quotas(ofDomain: domain)
        for bucket in buckets { encoder.append(parts: start, bucket.name, bucket.limit) }
        var numbers = PackedNumbers(capacity: 2 + 2 * buckets.count)
        numbers.append(keptMilliseconds)
        numbers.append(mostDataPlanes)
        for bucket in buckets {
            numbers.append(bucket.rate.tokens)
            numbers.append(bucket.needs)
        }
        encoder.append(numbers.bytes)
        for bucket in buckets { encoder.append(bucket.dataPlane) }
    }

    /// The shares, in the buckets' order.
    func decode(_ reply: RedisReply) throws(RedisError) -> [Int64] {
        guard case .bulk(let bytes) = reply, var numbers = PackedNumberReader(bytes) else {
            throw reply.unexpected(for: Self.source.name)
        }
        var shares: [Int64] = []
        for bucket in buckets {
            guard let share = numbers.next(), (0...bucket.rate.tokens).contains(share) else {
                throw reply.unexpected(for: Self.source.name)
            }
            shares.append(share)
        }
        guard numbers.isAtEnd else { throw reply.unexpected(for: Self.source.name) }
        return shares
    }
}

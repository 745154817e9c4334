internal import InterlockCore
internal import RedisClient

/// Divides the limits of buckets among data planes by their demand. See `quota.lua`.
struct QuotaScript: ScriptCommand {
    static let source = RedisScript(library: "quota")

    /// The demand of a data plane for one bucket, in tokens per fill interval.
    struct Bucket {
        /// The bucket's name, as in the keys of counters.
        var name: String
        /// The part of the key after the name.
        var keySuffix: String
        /// The data plane's name in the quotas of this bucket's counter. It differs between the buckets that share a
        /// counter.
        var dataPlaneName: String
        var rate: QuotaRate
        var demand: Int64
    }

    var keys: KeySpace
    var domain: String
    var retentionMilliseconds: Int64
    var maximumDataPlanes: Int
    var buckets: [Bucket]

    var script: RedisScript { Self.source }
    var keyCount: Int { buckets.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        let start = keys.quotas(ofDomain: domain)
        for bucket in buckets { encoder.append(parts: start, bucket.name, bucket.keySuffix) }
        var numbers = PackedNumbers(capacity: 2 + 2 * buckets.count)
        numbers.append(retentionMilliseconds)
        numbers.append(maximumDataPlanes)
        for bucket in buckets {
            numbers.append(bucket.rate.tokens)
            numbers.append(bucket.demand)
        }
        encoder.append(numbers.bytes)
        for bucket in buckets { encoder.append(bucket.dataPlaneName) }
    }

    /// Returns the quotas in the order of the buckets.
    func decode(_ reply: RedisReply) throws(RedisError) -> [Int64] {
        guard case .bulk(let bytes) = reply, var numbers = PackedNumberReader(bytes) else {
            throw reply.unexpected(for: Self.source.name)
        }
        var quotas: [Int64] = []
        for bucket in buckets {
            guard let quota = numbers.next(), (0...bucket.rate.tokens).contains(quota) else {
                throw reply.unexpected(for: Self.source.name)
            }
            quotas.append(quota)
        }
        guard numbers.isAtEnd else { throw reply.unexpected(for: Self.source.name) }
        return quotas
    }
}

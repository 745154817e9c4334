internal import DequeModule

/// The limits on the quota buckets of data planes in this sidecar, per API key and in total, so that made-up buckets
/// cannot fill this process or Redis. A removed bucket counts until its key in Redis expires.
package struct QuotaBudget: Sendable {
    /// The limits of one API key or of all together.
    package struct Limits: Sendable {
        package var bucketCount: Int
        /// The bytes of the buckets' keys and values together.
        package var byteCount: Int
        package var sessionCount: Int

        package init(bucketCount: Int, byteCount: Int, sessionCount: Int) {
            self.bucketCount = bucketCount
            self.byteCount = byteCount
            self.sessionCount = sessionCount
        }
    }

    private struct Usage {
        var bucketCount = 0
        var byteCount = 0
        var sessionCount = 0

        var isZero: Bool { bucketCount == 0 && byteCount == 0 && sessionCount == 0 }

        func hasCapacity(forBytes bucketBytes: Int, within limits: Limits) -> Bool {
            bucketCount < limits.bucketCount && byteCount + bucketBytes <= limits.byteCount
        }
    }

    /// A bucket of a data plane, which has one key in Redis.
    package struct Bucket: Hashable, Sendable {
        package var dataPlane: String
        /// The digest of the bucket's keys and values.
        package var digest: Int

        package init(dataPlane: String, digest: Int) {
            self.dataPlane = dataPlane
            self.digest = digest
        }
    }

    /// The usage of a removed bucket, which counts until its key in Redis expires.
    private struct RemovedBucket {
        var client: String
        var byteCount: Int
        var until: Instant
    }

    package static let perClient = Limits(bucketCount: 10_000, byteCount: 4 << 20, sessionCount: 256)
    package static let total = Limits(bucketCount: 20_000, byteCount: 8 << 20, sessionCount: 1024)

    private let perClient: Limits
    private let total: Limits
    private var clients: [String: Usage] = [:]
    private var totalUsage = Usage()
    private var removed: [Bucket: RemovedBucket] = [:]
    /// The removed buckets in order of removal. A bucket may have returned or been removed again since.
    private var removals: Deque<(bucket: Bucket, until: Instant)> = []

    package init(perClient: Limits = Self.perClient, total: Limits = Self.total) {
        self.perClient = perClient
        self.total = total
    }

    /// The number of buckets that count.
    package var bucketCount: Int { totalUsage.bucketCount }

    /// Admits a session. Returns `false` if there are too many sessions.
    package mutating func beginSession(of client: String) -> Bool {
        guard totalUsage.sessionCount < total.sessionCount, clients[client]?.sessionCount ?? 0 < perClient.sessionCount
        else {
            return false
        }
        change(client) { $0.sessionCount += 1 }
        return true
    }

    package mutating func endSession(of client: String) { change(client) { $0.sessionCount -= 1 } }

    /// Admits a bucket. A bucket that returns before its key expires uses the same key and counts once.
    /// - Returns: the time until which Redis may still have the bucket's former key; `nil` if the bucket does not fit.
    package mutating func take(_ bucket: Bucket, bytes: Int, of client: String, now: Instant) -> Instant? {
        dropExpired(now: now)
        let former = removed.removeValue(forKey: bucket)
        if let former { adjust(buckets: -1, ofBytes: former.byteCount, of: former.client) }
        let usage = clients[client] ?? Usage()
        guard totalUsage.hasCapacity(forBytes: bytes, within: total),
            usage.hasCapacity(forBytes: bytes, within: perClient)
        else {
            if let former {
                removed[bucket] = former
                adjust(buckets: 1, ofBytes: former.byteCount, of: former.client)
            }
            return nil
        }
        adjust(buckets: 1, ofBytes: bytes, of: client)
        return former?.until ?? now
    }

    /// Removes a bucket, which counts against the budget until its key in Redis expires.
    package mutating func returnBucket(_ bucket: Bucket, bytes: Int, of client: String, until: Instant, now: Instant) {
        dropExpired(now: now)
        guard until > now else { return adjust(buckets: -1, ofBytes: bytes, of: client) }
        removed[bucket] = RemovedBucket(client: client, byteCount: bytes, until: until)
        removals.append((bucket, until))
        if removals.count > 2 * removed.count + 64 { removals.removeAll { removed[$0.bucket]?.until != $0.until } }
    }

    private mutating func dropExpired(now: Instant) {
        while let first = removals.first, first.until <= now {
            removals.removeFirst()
            guard let former = removed[first.bucket], former.until == first.until else { continue }
            removed[first.bucket] = nil
            adjust(buckets: -1, ofBytes: former.byteCount, of: former.client)
        }
    }

    /// Adds `buckets` buckets of `bytes` each to the usage; a negative number removes them.
    private mutating func adjust(buckets: Int, ofBytes bytes: Int, of client: String) {
        change(client) {
            $0.bucketCount += buckets
            $0.byteCount += buckets * bytes
        }
    }

    private mutating func change(_ client: String, _ body: (inout Usage) -> Void) {
        body(&totalUsage)
        var usage = clients[client] ?? Usage()
        body(&usage)
        clients[client] = usage.isZero ? nil : usage
    }
}

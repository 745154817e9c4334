internal import DequeModule

/// Limits the quota buckets of data planes in this sidecar, per API key and in total, so that made-up buckets cannot
/// fill this process or Redis. A removed bucket counts until its key in Redis expires.
package struct QuotaBudget: Sendable {
    /// The limits.
    package struct Limits: Sendable {
        package var buckets: Int
        /// The bytes of the buckets' keys and values together.
        package var bytes: Int
        package var sessions: Int

        package init(buckets: Int, bytes: Int, sessions: Int) {
            self.buckets = buckets
            self.bytes = bytes
            self.sessions = sessions
        }
    }

    private struct Usage {
        var buckets = 0
        var bytes = 0
        var sessions = 0

        var isZero: Bool { buckets == 0 && bytes == 0 && sessions == 0 }

        func hasCapacity(forBytes more: Int, in bounds: Limits) -> Bool {
            buckets < bounds.buckets && bytes + more <= bounds.bytes
        }
    }

    /// A bucket of a data plane, which has one key in Redis.
    package struct Bucket: Hashable, Sendable {
        package var dataPlane: String
        /// The digest of its keys and values.
        package var digest: Int

        package init(dataPlane: String, digest: Int) {
            self.dataPlane = dataPlane
            self.digest = digest
        }
    }

    /// The usage of a removed bucket, which counts until its key in Redis expires.
    private struct RemovedBucket {
        var client: String
        var bytes: Int
        var until: Instant
    }

    package static let perClient = Limits(buckets: 10_000, bytes: 4 << 20, sessions: 256)
    package static let total = Limits(buckets: 20_000, bytes: 8 << 20, sessions: 1024)

    private let perClient: Limits
    private let total: Limits
    private var clients: [String: Usage] = [:]
    private var all = Usage()
    private var removed: [Bucket: RemovedBucket] = [:]
    /// The removed buckets in order of removal. It may contain buckets that have come back or were removed again since.
    private var removals: Deque<(bucket: Bucket, until: Instant)> = []

    package init(perClient: Limits = Self.perClient, total: Limits = Self.total) {
        self.perClient = perClient
        self.total = total
    }

    /// The number of buckets that count.
    package var buckets: Int { all.buckets }

    /// Admits a session. Returns `false` if there are too many.
    package mutating func beginSession(of client: String) -> Bool {
        guard all.sessions < total.sessions, clients[client]?.sessions ?? 0 < perClient.sessions else { return false }
        change(client) { $0.sessions += 1 }
        return true
    }

    package mutating func endSession(of client: String) { change(client) { $0.sessions -= 1 } }

    /// Admits a bucket. A bucket that returns before its key expires uses the same key and counts once.
    /// - Returns: the end of the period in which Redis may still have the bucket's former key; `nil` if the bucket does
    ///   not fit.
    package mutating func take(_ bucket: Bucket, bytes: Int, of client: String, now: Instant) -> Instant? {
        dropExpired(now: now)
        let former = removed.removeValue(forKey: bucket)
        if let former { adjust(buckets: -1, ofBytes: former.bytes, of: former.client) }
        let usage = clients[client] ?? Usage()
        guard all.hasCapacity(forBytes: bytes, in: total), usage.hasCapacity(forBytes: bytes, in: perClient) else {
            if let former {
                removed[bucket] = former
                adjust(buckets: 1, ofBytes: former.bytes, of: former.client)
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
        removed[bucket] = RemovedBucket(client: client, bytes: bytes, until: until)
        removals.append((bucket, until))
        if removals.count > 2 * removed.count + 64 { removals.removeAll { removed[$0.bucket]?.until != $0.until } }
    }

    private mutating func dropExpired(now: Instant) {
        while let first = removals.first, first.until <= now {
            removals.removeFirst()
            guard let former = removed[first.bucket], former.until == first.until else { continue }
            removed[first.bucket] = nil
            adjust(buckets: -1, ofBytes: former.bytes, of: former.client)
        }
    }

    private mutating func adjust(buckets: Int, ofBytes bytes: Int, of client: String) {
        change(client) {
            $0.buckets += buckets
            $0.bytes += buckets * bytes
        }
    }

    private mutating func change(_ client: String, _ body: (inout Usage) -> Void) {
        body(&all)
        var usage = clients[client] ?? Usage()
        body(&usage)
        clients[client] = usage.isZero ? nil : usage
    }
}

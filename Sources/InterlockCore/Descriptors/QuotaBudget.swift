internal import DequeModule

/// Limits the buckets of quotas that data planes have here, per API key and in total, so that made-up buckets fill
/// neither this process nor Redis. A removed bucket counts until its key in Redis is gone.
package struct QuotaBudget: Sendable {
    /// The limits.
    package struct Bounds: Sendable {
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

    private struct Use {
        var buckets = 0
        var bytes = 0
        var sessions = 0

        var isNone: Bool { buckets == 0 && bytes == 0 && sessions == 0 }

        func hasRoom(forBytes more: Int, in bounds: Bounds) -> Bool { buckets < bounds.buckets && bytes + more <= bounds.bytes }
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

    /// The use that a removed bucket still counts for.
    private struct Rest {
        var client: String
        var bytes: Int
        var until: Instant
    }

    package static let ofClient = Bounds(buckets: 10_000, bytes: 4 << 20, sessions: 256)
    package static let ofAll = Bounds(buckets: 20_000, bytes: 8 << 20, sessions: 1024)

    private let ofClient: Bounds
    private let ofAll: Bounds
    private var clients: [String: Use] = [:]
    private var all = Use()
    private var rests: [Bucket: Rest] = [:]
    /// The removed buckets in order of removal. It may contain buckets that have come back or were removed again since.
    private var due: Deque<(bucket: Bucket, until: Instant)> = []

    package init(ofClient: Bounds = Self.ofClient, ofAll: Bounds = Self.ofAll) {
        self.ofClient = ofClient
        self.ofAll = ofAll
    }

    /// The number of buckets that count.
    package var buckets: Int { all.buckets }

    /// Admits a session. Returns `false` if there are too many.
    package mutating func beginSession(of client: String) -> Bool {
        guard all.sessions < ofAll.sessions, clients[client]?.sessions ?? 0 < ofClient.sessions else { return false }
        change(client) { $0.sessions += 1 }
        return true
    }

    package mutating func endSession(of client: String) { change(client) { $0.sessions -= 1 } }

    /// Admits a bucket. A bucket that comes back in time has the same key again and counts once.
    /// - Returns: the time until which Redis may still have the bucket's former key; `nil` if there is no room for the
    ///   bucket.
    package mutating func take(_ bucket: Bucket, bytes: Int, of client: String, now: Instant) -> Instant? {
        dropExpired(now: now)
        let rest = rests.removeValue(forKey: bucket)
        if let rest { count(-1, rest.bytes, of: rest.client) }
        guard all.hasRoom(forBytes: bytes, in: ofAll), (clients[client] ?? Use()).hasRoom(forBytes: bytes, in: ofClient) else {
            if let rest {
                rests[bucket] = rest
                count(1, rest.bytes, of: rest.client)
            }
            return nil
        }
        count(1, bytes, of: client)
        return rest?.until ?? now
    }

    /// Handles the removal of a bucket, which counts until its key in Redis is gone.
    package mutating func returnBucket(_ bucket: Bucket, bytes: Int, of client: String, until: Instant, now: Instant) {
        dropExpired(now: now)
        guard until > now else { return count(-1, bytes, of: client) }
        rests[bucket] = Rest(client: client, bytes: bytes, until: until)
        due.append((bucket, until))
        if due.count > 2 * rests.count + 64 { due.removeAll { rests[$0.bucket]?.until != $0.until } }
    }

    private mutating func dropExpired(now: Instant) {
        while let first = due.first, first.until <= now {
            due.removeFirst()
            guard let rest = rests[first.bucket], rest.until == first.until else { continue }
            rests[first.bucket] = nil
            count(-1, rest.bytes, of: rest.client)
        }
    }

    private mutating func count(_ buckets: Int, _ bytes: Int, of client: String) {
        change(client) {
            $0.buckets += buckets
            $0.bytes += buckets * bytes
        }
    }

    private mutating func change(_ client: String, _ body: (inout Use) -> Void) {
        body(&all)
        var own = clients[client] ?? Use()
        body(&own)
        clients[client] = own.isNone ? nil : own
    }
}

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

    /// The amounts that are given back later.
    private struct Return {
        var client: String
        var at: Instant
        var buckets: Int
        var bytes: Int
    }

    package static let ofClient = Bounds(buckets: 10_000, bytes: 4 << 20, sessions: 256)
    package static let ofAll = Bounds(buckets: 20_000, bytes: 8 << 20, sessions: 1024)

    private let ofClient: Bounds
    private let ofAll: Bounds
    private var clients: [String: Use] = [:]
    private var all = Use()
    /// By data plane. At most one for each bucket that counts.
    private var returns: [String: Return] = [:]
    /// The same in the order of their times; one whose time has changed since is there again.
    private var due: Deque<(dataPlane: String, at: Instant)> = []

    package init(ofClient: Bounds = Self.ofClient, ofAll: Bounds = Self.ofAll) {
        self.ofClient = ofClient
        self.ofAll = ofAll
    }

    /// How many buckets count.
    package var buckets: Int { all.buckets }

    /// Admits a session. Returns `false` if there are too many.
    package mutating func beginSession(of client: String) -> Bool {
        guard all.sessions < ofAll.sessions, clients[client]?.sessions ?? 0 < ofClient.sessions else { return false }
        change(client) { $0.sessions += 1 }
        return true
    }

    package mutating func endSession(of client: String) { change(client) { $0.sessions -= 1 } }

    /// Admits a bucket. Returns `false` if there is no room for it.
    package mutating func take(bytes: Int, of client: String, now: Instant) -> Bool {
        settle(now: now)
        guard all.hasRoom(forBytes: bytes, in: ofAll), (clients[client] ?? Use()).hasRoom(forBytes: bytes, in: ofClient) else {
            return false
        }
        change(client) {
            $0.buckets += 1
            $0.bytes += bytes
        }
        return true
    }

    /// Handles the removal of a data plane's buckets, which count until `instant`, when their keys in Redis are gone.
    package mutating func giveBack(
        buckets: Int, bytes: Int, of client: String, dataPlane: String, at instant: Instant, now: Instant
    ) {
        settle(now: now)
        guard buckets > 0 else { return }
        guard instant > now else { return release(client, buckets: buckets, bytes: bytes) }
        var sum = returns[dataPlane] ?? Return(client: client, at: instant, buckets: 0, bytes: 0)
        sum.buckets += buckets
        sum.bytes += bytes
        if returns[dataPlane] == nil || sum.at < instant { due.append((dataPlane, instant)) }
        sum.at = max(sum.at, instant)
        returns[dataPlane] = sum
    }

    /// Handles the return of a data plane, which will have the same keys again.
    package mutating func returned(_ dataPlane: String) {
        guard let sum = returns.removeValue(forKey: dataPlane) else { return }
        release(sum.client, buckets: sum.buckets, bytes: sum.bytes)
    }

    private mutating func settle(now: Instant) {
        while let first = due.first, first.at <= now {
            due.removeFirst()
            guard let sum = returns[first.dataPlane], sum.at <= now else { continue }
            returned(first.dataPlane)
        }
    }

    private mutating func release(_ client: String, buckets: Int, bytes: Int) {
        change(client) {
            $0.buckets -= buckets
            $0.bytes -= bytes
        }
    }

    private mutating func change(_ client: String, _ body: (inout Use) -> Void) {
        body(&all)
        var own = clients[client] ?? Use()
        body(&own)
        clients[client] = own.isNone ? nil : own
    }
}

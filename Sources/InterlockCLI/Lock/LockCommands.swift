import Hiredis
import InterlockCore

/// `LOCK.ACQUIRE name ttl-ms [WAIT ms] [OWNER token] [LABEL text] [SHARED|PERMITS n]`.
struct AcquireLock: SidecarCommand {
    var name: String
    var ttl: Duration
    var wait: Duration
    var owner: String?
    var label: String?
    var mode: LockMode

    var purpose: String { "lock acquire \(name)" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("LOCK.ACQUIRE")
        encoder.append(name)
        encoder.append(ttl.wholeMilliseconds)
        encoder.append("WAIT")
        encoder.append(wait.wholeMilliseconds)
        if let owner {
            encoder.append("OWNER")
            encoder.append(owner)
        }
        if let label {
            encoder.append("LABEL")
            encoder.append(label)
        }
        switch mode {
        case .exclusive:
            break
        case .shared:
            encoder.append("SHARED")
        case .permits(let count):
            encoder.append("PERMITS")
            encoder.append(count)
        }
    }

    /// `nil`: held by another.
    func decode(_ reply: RedisReply) throws(RedisError) -> LockGrant? {
        if case .null = reply { return nil }
        guard let parts = reply.array, parts.count == 3, let token = parts[0].text, let fence = parts[1].integer,
            let valid = parts[2].integer
        else { throw reply.unexpected(for: "LOCK.ACQUIRE") }
        return LockGrant(name: name, token: token, fence: fence, validMilliseconds: valid)
    }
}

/// `LOCK.RENEW name token ttl-ms`.
struct RenewLock: SidecarCommand {
    var name: String
    var token: String
    var ttl: Duration

    var purpose: String { "lock renew \(name)" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("LOCK.RENEW")
        encoder.append(name)
        encoder.append(token)
        encoder.append(ttl.wholeMilliseconds)
    }

    /// `nil`: lost.
    func decode(_ reply: RedisReply) throws(RedisError) -> LockRenewal? {
        if case .null = reply { return nil }
        guard let valid = reply.integer else { throw reply.unexpected(for: "LOCK.RENEW") }
        return LockRenewal(name: name, validMilliseconds: valid)
    }
}

/// `LOCK.RELEASE name token`.
struct ReleaseLock: SidecarCommand {
    var name: String
    var token: String

    var purpose: String { "lock release \(name)" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("LOCK.RELEASE")
        encoder.append(name)
        encoder.append(token)
    }

    /// Whether that token held it.
    func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
        guard let released = reply.integer else { throw reply.unexpected(for: "LOCK.RELEASE") }
        return released == 1
    }
}

/// `LOCK.BREAK name`.
struct BreakLock: SidecarCommand {
    var name: String

    var purpose: String { "lock break \(name)" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("LOCK.BREAK")
        encoder.append(name)
    }

    /// Whether somebody held it.
    func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
        guard let broken = reply.integer else { throw reply.unexpected(for: "LOCK.BREAK") }
        return broken == 1
    }
}

/// `LOCK.INFO name`.
struct InspectLock: SidecarCommand {
    var name: String

    var purpose: String { "lock show \(name)" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("LOCK.INFO")
        encoder.append(name)
    }

    /// `nil`: nobody holds it or waits for it.
    func decode(_ reply: RedisReply) throws(RedisError) -> LockReading? {
        if case .null = reply { return nil }
        guard let fields = ReplyFields(reply), let ttl = fields.integer("ttl_ms") else {
            throw reply.unexpected(for: "LOCK.INFO")
        }
        return LockReading(
            name: name, label: fields.text("label"), fence: fields.integer("fence"), ttlMilliseconds: ttl,
            holders: fields.integer("holders") ?? 0, waiters: fields.integer("waiters") ?? 0)
    }
}

/// `LOCK.LIST cursor MATCH glob`: one step through the names of the locks that are held.
struct ListLocks: SidecarCommand {
    var cursor: String
    var glob: String

    /// Where a listing begins, and what ends it.
    static let start = "0"

    var purpose: String { "lock list" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("LOCK.LIST")
        encoder.append(cursor)
        encoder.append("MATCH")
        encoder.append(glob)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> LockNamesPage {
        guard let parts = reply.array, parts.count == 2, let next = parts[0].text, let names = parts[1].array else {
            throw reply.unexpected(for: "LOCK.LIST")
        }
        return LockNamesPage(cursor: next, names: names.compactMap(\.text))
    }
}

/// One step of a listing.
struct LockNamesPage: Sendable {
    /// Hand it in for the next step; `ListLocks.start`: this was the last.
    var cursor: String
    /// May name a lock that an earlier step named.
    var names: [String]
}

extension SidecarConnection {
    /// How many locks are asked for without waiting for answers.
    private static let batchSize = 100

    /// The names of the locks that are held and match `glob`, each once, in no order; `isComplete` is false when there are
    /// more than `limit`.
    func lockNames(matching glob: String, limit: Int) async throws -> (names: [String], isComplete: Bool) {
        var names: Set<String> = []
        var cursor = ListLocks.start
        repeat {
            let page = try await send(ListLocks(cursor: cursor, glob: glob))
            for name in page.names where !names.contains(name) {
                guard names.count < limit else { return (Array(names), false) }
                names.insert(name)
            }
            cursor = page.cursor
        } while cursor != ListLocks.start
        return (Array(names), true)
    }

    /// What there is to know of each of the locks; those that ended meanwhile are left out.
    func readings(of names: [String]) async throws -> [LockReading] {
        var readings: [LockReading] = []
        for start in stride(from: 0, to: names.count, by: Self.batchSize) {
            let batch = names[start..<min(start + Self.batchSize, names.count)]
            try await withThrowingTaskGroup(of: LockReading?.self) { group in
                for name in batch {
                    group.addTask { try await send(InspectLock(name: name)) }
                }
                for try await reading in group {
                    if let reading, reading.isHeld { readings.append(reading) }
                }
            }
        }
        return readings.sorted { $0.name < $1.name }
    }
}

internal import Hiredis
internal import InterlockCore

/// See `acquire.lua`.
struct AcquireScript: ScriptCommand {
    enum Mode: String {
        case take
        case own
    }

    enum Reply {
        case granted(fence: Int64)
        case extended(fence: Int64)
        /// `ttl` in milliseconds; `nil`: without end.
        case held(ttl: Int64?)
    }

    /// Fences outlive their lock by far, and are no immortal counters: after a day Redis' clock alone keeps them rising.
    static let fenceTTL: Int64 = 86_400_000

    static let source = RedisScript(name: "acquire.lua", source: PackageResources.acquire_lua)

    var keys: KeySpace
    var name: String
    var token: String
    var ttl: Int64
    var mode: Mode
    var sidecar: String
    var ticketWhenHeld: Int64 = 0
    var ticketWhenGranted: Int64 = -1

    var script: RedisScript { Self.source }
    var keyCount: Int { 3 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(keys.lock(name))
        encoder.append(keys.fence(name))
        encoder.append(keys.queue(name))
        encoder.append(token)
        encoder.append(ttl)
        encoder.append(max(Self.fenceTTL, ttl))
        encoder.append(mode.rawValue)
        encoder.append(sidecar)
        encoder.append(ticketWhenHeld)
        encoder.append(ticketWhenGranted)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        guard let parts = reply.array, parts.count == 2, let kind = parts[0].integer, let value = parts[1].integer else {
            throw reply.unexpected(for: "acquire.lua")
        }
        switch kind {
        case 1: return .granted(fence: value)
        case 2: return .extended(fence: value)
        default: return .held(ttl: value == -1 ? nil : max(0, value))
        }
    }
}

/// See `renew.lua`.
struct RenewScript: ScriptCommand {
    static let source = RedisScript(name: "renew.lua", source: PackageResources.renew_lua)

    var keys: KeySpace
    var name: String
    var token: String
    var ttl: Int64

    var script: RedisScript { Self.source }
    var keyCount: Int { 1 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(keys.lock(name))
        encoder.append(token)
        encoder.append(ttl)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
        guard let number = reply.integer else { throw reply.unexpected(for: "renew.lua") }
        return number == 1
    }
}

/// See `release.lua`.
struct ReleaseScript: ScriptCommand {
    static let source = RedisScript(name: "release.lua", source: PackageResources.release_lua)

    var keys: KeySpace
    var name: String
    var token: String
    var sidecar: String
    var database: Int

    var script: RedisScript { Self.source }
    var keyCount: Int { 2 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(keys.lock(name))
        encoder.append(keys.queue(name))
        encoder.append(token)
        encoder.append(sidecar)
        encoder.append(keys.wakePrefix)
        encoder.append(WakeMessage(database: database, lock: name).encoded)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
        guard let number = reply.integer else { throw reply.unexpected(for: "release.lua") }
        return number == 1
    }
}

/// See `break.lua`.
struct BreakScript: ScriptCommand {
    static let source = RedisScript(name: "break.lua", source: PackageResources.break_lua)

    var keys: KeySpace
    var name: String
    var by: String
    var origin: String
    var database: Int

    var script: RedisScript { Self.source }
    var keyCount: Int { 2 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(keys.lock(name))
        encoder.append(keys.queue(name))
        encoder.append(keys.wakePrefix)
        encoder.append(WakeMessage(database: database, lock: name).encoded)
        encoder.append(keys.events)
        encoder.append(
            #"{"v":1,"type":"lock.broken","origin":"# + JSONText.quoted(origin) + #","db":\#(database),"lock":"#
                + JSONText.quoted(name) + #","by":"# + JSONText.quoted(by) + #","at_ms":"#)
        encoder.append("}")
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Bool {
        guard let number = reply.integer else { throw reply.unexpected(for: "break.lua") }
        return number == 1
    }
}

/// See `inspect.lua`.
struct InspectScript: ScriptCommand {
    struct Reply {
        var token: String?
        var ttl: Int64
        var fence: Int64?
        var otherSidecars: Int
    }

    static let source = RedisScript(name: "inspect.lua", source: PackageResources.inspect_lua)

    var keys: KeySpace
    var name: String
    var sidecar: String

    var script: RedisScript { Self.source }
    var keyCount: Int { 3 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(keys.lock(name))
        encoder.append(keys.fence(name))
        encoder.append(keys.queue(name))
        encoder.append(sidecar)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        guard let parts = reply.array, parts.count == 4, let ttl = parts[1].integer, let others = parts[3].integer else {
            throw reply.unexpected(for: "inspect.lua")
        }
        return Reply(token: parts[0].text, ttl: ttl, fence: parts[2].integer, otherSidecars: Int(others))
    }
}

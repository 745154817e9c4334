internal import Hiredis
internal import InterlockCore

/// See `acquire.lua`.
struct AcquireScript: ScriptCommand {
    enum Mode: String {
        case take
        case own
    }

    /// This sidecar's place among those who wait.
    struct Ticket {
        var sidecar: String
        var millisecondsWhenHeld: Int64
        /// For the others who wait here; 0: there are none; -1: nor was there a ticket.
        var millisecondsWhenGranted: Int64
    }

    enum Reply {
        case granted(fence: Int64)
        case extended(fence: Int64)
        /// `ttl` in milliseconds; `nil`: without end.
        case held(ttl: Int64?)
    }

    static let source = RedisScript(name: "acquire.lua", source: PackageResources.acquire_lua)

    var keys: KeySpace
    var name: String
    var token: String
    var ttl: Int64
    var mode: Mode
    /// Of a caller who waits.
    var ticket: Ticket?

    var script: RedisScript { Self.source }
    var keyCount: Int { 3 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(parts: keys.lockStart, name, keys.lockEnd)
        encoder.append(parts: keys.fenceStart, name, "}")
        encoder.append(parts: keys.queueStart, name, "}")
        encoder.append(token)
        encoder.append(ttl)
        // Each argument costs both sides something: those that say nothing new stay away.
        guard mode != .take || ticket != nil else { return }
        encoder.append(mode.rawValue)
        guard let ticket else { return }
        encoder.append(ticket.sidecar)
        encoder.append(ticket.millisecondsWhenHeld)
        encoder.append(ticket.millisecondsWhenGranted)
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
        encoder.append(parts: keys.lockStart, name, keys.lockEnd)
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
        encoder.append(parts: keys.lockStart, name, keys.lockEnd)
        encoder.append(parts: keys.queueStart, name, "}")
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
        encoder.append(parts: keys.lockStart, name, keys.lockEnd)
        encoder.append(parts: keys.queueStart, name, "}")
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
        encoder.append(parts: keys.lockStart, name, keys.lockEnd)
        encoder.append(parts: keys.fenceStart, name, "}")
        encoder.append(parts: keys.queueStart, name, "}")
        encoder.append(sidecar)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        guard let parts = reply.array, parts.count == 4, let ttl = parts[1].integer, let others = parts[3].integer else {
            throw reply.unexpected(for: "inspect.lua")
        }
        return Reply(token: parts[0].text, ttl: ttl, fence: parts[2].integer, otherSidecars: Int(others))
    }
}

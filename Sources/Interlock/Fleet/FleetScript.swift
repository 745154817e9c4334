internal import InterlockCore
internal import Hiredis

/// See `fleet.lua`.
struct FleetScript: ScriptCommand {
    struct Reply {
        var redisTime: Int64
        var members: [String]
    }

    static let source = RedisScript(name: "fleet.lua", source: PackageResources.fleet_lua)

    var keys: KeySpace
    var id: String
    var database: Int
    /// For how many milliseconds it counts as alive; 0: it leaves.
    var lifetime: Int64

    var script: RedisScript { Self.source }
    var keyCount: Int { 1 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(keys.fleet)
        encoder.append(id)
        encoder.append(lifetime)
        encoder.append(keys.events)
        encoder.append(#"{"v":1,"type":""#)
        encoder.append(#"","origin":\#(JSONText.quoted(id)),"db":\#(database),"at_ms":"#)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        guard let parts = reply.array, parts.count == 2, let time = parts[0].integer, let members = parts[1].array else {
            throw reply.unexpected(for: "fleet.lua")
        }
        return Reply(redisTime: time, members: members.compactMap(\.text))
    }
}

internal import InterlockCore
internal import Hiredis

/// See `fleet.lua`.
struct FleetScript: ScriptCommand {
    struct Reply {
        var redisTime: Int64
        /// In the order of their deadlines, with the digest of what each runs with; empty: it has published none.
        var members: [(id: String, digest: String)]
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
        encoder.append(keys.fleetMember(""))
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        guard let parts = reply.array, parts.count == 3, let time = parts[0].integer, let ids = parts[1].array,
            let digests = parts[2].array, ids.count == digests.count
        else { throw reply.unexpected(for: "fleet.lua") }
        return Reply(redisTime: time, members: zip(ids, digests).map { ($0.text ?? "", $1.text ?? "") })
    }
}

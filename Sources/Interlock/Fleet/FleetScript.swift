internal import InterlockCore
internal import RedisClient

/// Renews this sidecar's membership and lists the live sidecars. See `fleet.lua`.
struct FleetScript: ScriptCommand {
    struct Reply {
        /// The clock reading of Redis, as Unix time in milliseconds.
        var redisTimeMilliseconds: Int64
        /// The live sidecars, in the order of their deadlines.
        var members: [String]
        /// The configuration digest of each sidecar that publishes one, by ID; `nil` if digests were not requested.
        var digests: [String: String]?
    }

    static let source = RedisScript(library: "fleet")

    var keys: KeySpace
    var id: String
    var database: Int
    /// The time for which the sidecar counts as alive, in milliseconds; 0 to leave the list.
    var lifetimeMilliseconds: Int64
    /// Whether to return the digests of all sidecars, which costs one read per sidecar.
    var includesDigests: Bool

    var script: RedisScript { Self.source }
    var keyCount: Int { keys.fleetMigrationGuard == nil ? 1 : 2 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(keys.fleet)
        if let migrationGuard = keys.fleetMigrationGuard { encoder.append(migrationGuard) }
        encoder.append(id)
        encoder.append(lifetimeMilliseconds)
        encoder.append(keys.events)
        encoder.append(#"{"v":1,"type":""#)
        encoder.append(#"","origin":\#(JSONText.quoted(id)),"db":\#(database),"at_ms":"#)
        encoder.append(includesDigests ? keys.fleetMember("") : "")
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Reply {
        guard let parts = reply.array, parts.count == 3, let milliseconds = parts[0].integer, let ids = parts[1].array,
            let digests = parts[2].array, digests.count == (includesDigests ? ids.count : 0)
        else { throw reply.unexpected(for: "fleet.lua") }
        let members = ids.map { $0.text ?? "" }
        guard includesDigests else { return Reply(redisTimeMilliseconds: milliseconds, members: members) }
        let published = zip(members, digests.map { $0.text ?? "" }).filter { !$1.isEmpty }
        return Reply(
            redisTimeMilliseconds: milliseconds, members: members, digests: Dictionary(published, uniquingKeysWith: { $1 }))
    }
}

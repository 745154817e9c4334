internal import Hiredis
internal import InterlockCore

/// See `give-back.lua`.
struct GiveBackScript: ScriptCommand {
    static let source = RedisScript(
        name: "give-back.lua", source: PackageResources.counters_lua + PackageResources.give_back_lua)

    var shares: [TakenShare]

    var script: RedisScript { Self.source }
    var keyCount: Int { shares.count }

    func encodeArguments(into encoder: inout CommandEncoder) {
        for share in shares { encoder.append(share.key) }
        for share in shares {
            encoder.append(share.limit.algorithm.scriptNumber)
            encoder.append(share.cost)
            encoder.append(share.since)
            encoder.append(share.limit.limit)
            encoder.append(share.limit.windowMilliseconds)
        }
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        guard let number = reply.integer else { throw reply.unexpected(for: Self.source.name) }
        return number
    }
}

internal import Hiredis

/// See `publish.lua`.
struct PublishScript: ScriptCommand {
    static let source = RedisScript(name: "publish.lua", source: PackageResources.publish_lua)

    var channel: String
    /// The event's JSON up to the value of `at_ms`, its last field.
    var start: String

    var script: RedisScript { Self.source }
    var keyCount: Int { 0 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(channel)
        encoder.append(start)
    }

    /// When it was published, in milliseconds of the Unix epoch.
    func decode(_ reply: RedisReply) throws(RedisError) -> Int64 {
        guard let time = reply.integer else { throw reply.unexpected(for: script.name) }
        return time
    }
}

import Hiredis

/// A script that hands its key and its argument back.
struct EchoScript: ScriptCommand, Sendable {
    static let code = RedisScript(name: "echo.lua", source: Array("return {KEYS[1], ARGV[1]}".utf8))

    var key: String
    var argument: [UInt8]

    var script: RedisScript { Self.code }
    var keyCount: Int { 1 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        encoder.append(key)
        encoder.append(argument)
    }

    func decode(_ reply: RedisReply) throws(RedisError) -> RedisReply { reply }
}

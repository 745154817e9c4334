/// A minimal script. Running it shows whether the server runs scripts for this user.
struct ProbeScript: ScriptCommand {
    private static let shared = RedisScript(name: "the probe script", source: Array("return 1".utf8))

    /// A key that is passed to the script without being accessed; `nil` to pass none.
    var key: String?

    var script: RedisScript { Self.shared }
    var keyCount: Int { key == nil ? 0 : 1 }

    func encodeArguments(into encoder: inout CommandEncoder) {
        if let key { encoder.append(key) }
    }

    func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.integer == 1 else { throw reply.unexpected(for: script.name) }
    }
}

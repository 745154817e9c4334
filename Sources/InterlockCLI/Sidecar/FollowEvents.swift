import Hiredis

/// `SUBSCRIBE channel`: whether the sidecar has that channel.
struct FollowEvents: SidecarCommand {
    var channel: String

    var purpose: String { "events" }

    func encode(into encoder: inout CommandEncoder) {
        encoder.append("SUBSCRIBE")
        encoder.append(channel)
    }

    func decode(_ reply: RedisReply) throws(RedisError) {
        guard reply.array?.first?.text == "subscribe" else { throw reply.unexpected(for: "SUBSCRIBE") }
    }
}

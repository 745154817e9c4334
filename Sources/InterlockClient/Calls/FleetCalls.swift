internal import InterlockCore
internal import RedisClient

extension FleetMember {
    /// Decodes a member's map. Returns `nil` if the reply is not such a map.
    fileprivate init?(_ reply: RedisReply) {
        guard let fields = ReplyFields(reply), let id = fields.text("id") else { return nil }
        self.init(
            id: id, host: fields.text("host"), processID: fields.integer("pid"), version: fields.text("version"),
            startedMilliseconds: fields.integer("started_ms"), configurationDigest: fields.text("configuration"),
            differingServices: fields.texts("differs"))
    }
}

/// The commands `FLEET.*`.
enum FleetCalls {
    /// `FLEET.LIST`.
    struct List: SidecarCall {
        func encode(into encoder: inout CommandEncoder) {
            encoder.append("FLEET.LIST")
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> [FleetMember] {
            try reply.elements(for: "FLEET.LIST") { FleetMember($0) }
        }
    }
}

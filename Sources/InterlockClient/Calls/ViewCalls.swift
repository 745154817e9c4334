internal import Hiredis

/// The commands `LIVE.*`.
enum ViewCalls {
    /// `LIVE.VIEW`.
    struct Look: SidecarCall {
        /// The view, and its options.
        var words: [String]

        func encode(into encoder: inout CommandEncoder) {
            encoder.append("LIVE.VIEW")
            for word in words { encoder.append(word) }
        }

        func decode(_ reply: RedisReply) throws(RedisError) -> String {
            guard let text = reply.text else { throw reply.unexpected(for: "LIVE.VIEW") }
            return text
        }
    }
}

/// What `breaker.lua` publishes when a breaker has changed.
struct BreakerAnnouncement {
    let call: ModelRedis.BreakerCall
    /// Milliseconds of the Unix epoch.
    let at: Int64
    let hash: [String: String]

    var json: String {
        func quoted(_ name: String) -> String { Self.quoted(hash[name] ?? "") }
        func raw(_ name: String) -> String { hash[name] ?? "0" }
        let members: [(String, String)] = [
            ("v", "1"), ("type", "\"breaker\""), ("origin", Self.quoted(call.origin)), ("db", "0"), ("at_ms", "\(at)"),
            ("service", Self.quoted(call.service)), ("state", quoted("state")), ("cause", quoted("cause")),
            ("reason", quoted("reason")), ("since_ms", raw("since")), ("until_ms", raw("until")),
            ("generation", raw("generation")), ("trips", raw("trips")), ("streak", raw("streak")),
            ("failure_rate", raw("failure_rate")), ("slow_rate", raw("slow_rate")), ("calls", raw("calls")),
            ("by", quoted("by")), ("forced", quoted("forced")), ("forced_until_ms", raw("forced_until")),
        ]
        return "{" + members.map { "\"\($0)\":\($1)" }.joined(separator: ",") + "}"
    }

    /// As `cjson.encode` has strings without control characters.
    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for character in text {
            if "\"\\/".contains(character) { quoted.append("\\") }
            quoted.append(character)
        }
        return quoted + "\""
    }
}

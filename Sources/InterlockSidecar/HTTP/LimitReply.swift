internal import InterlockCore

/// A limit's decision as JSON: of the window that binds.
struct LimitReply: Encodable {
    /// The same as members of a problem.
    let members: [String: JSONValue]

    init(_ decision: LimitAnswer, name: String?) {
        members = [
            "limited": .flag(!decision.isTaken),
            "limit": .integer(decision.limit),
            "remaining": .integer(decision.remaining),
            "retry_after_ms": .integer(decision.retryAfter ?? -1),
            "reset_after_ms": .integer(decision.resetAfter),
            "name": name.map(JSONValue.text) ?? .null,
        ]
    }

    func encode(to encoder: any Encoder) throws {
        try members.encode(to: encoder)
    }
}

/// A lease that was granted.
struct LockGrant: Answer {
    var name: String
    var token: String
    var fence: Int64
    var validMilliseconds: Int64

    private enum CodingKeys: String, CodingKey {
        case name, token, fence
        case validMilliseconds = "valid_ms"
    }

    var table: String {
        Table([
            "token": token,
            "fence": "\(fence)",
            "valid": ReadableText.span(milliseconds: validMilliseconds),
        ]).text
    }
}

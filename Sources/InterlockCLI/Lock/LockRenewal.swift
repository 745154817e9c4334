/// A lease that was extended.
struct LockRenewal: Answer {
    var name: String
    var validMilliseconds: Int64

    private enum CodingKeys: String, CodingKey {
        case name
        case validMilliseconds = "valid_ms"
    }

    var table: String {
        Table(["valid": ReadableText.span(milliseconds: validMilliseconds)]).text
    }
}

/// What there is to know of a lock, without its token.
struct LockReading: Answer, Sendable {
    var name: String
    /// The holder's label, or `foreign`; `nil`: nobody holds it.
    var label: String?
    /// `nil`: none was granted within a day.
    var fence: Int64?
    /// -1: without end; 0: nobody holds it.
    var ttlMilliseconds: Int64
    /// How many hold it.
    var holders: Int64
    var waiters: Int64

    private enum CodingKeys: String, CodingKey {
        case name, label, fence, holders, waiters
        case ttlMilliseconds = "ttl_ms"
    }

    var isHeld: Bool { label != nil }

    /// What is left of the lease, for people.
    var timeLeft: String {
        switch ttlMilliseconds {
        case -1: "without end"
        case _ where isHeld: ReadableText.span(milliseconds: ttlMilliseconds)
        default: ""
        }
    }

    var table: String {
        Table([
            "lock": name,
            "label": label ?? "nobody holds it",
            "time left": timeLeft,
            "holders": "\(holders)",
            "fence": fence.map { "\($0)" } ?? "",
            "waiting": "\(waiters)",
        ]).text
    }
}

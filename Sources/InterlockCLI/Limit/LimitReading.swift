import InterlockCommandLine
import InterlockCore
import InterlockSidecar

/// The answer of the limits: the numbers of the window with the least left.
struct LimitReading: Answer, Sendable {
    var service: String
    var isLimited: Bool
    var limit: Int
    var remaining: Int
    /// -1: at once.
    var retryAfterMilliseconds: Int64
    var resetAfterMilliseconds: Int64
    /// The name of the limit that binds; `nil`: the sidecar does not tell.
    var name: String?

    private enum CodingKeys: String, CodingKey {
        case service, limit, remaining, name
        case isLimited = "limited"
        case retryAfterMilliseconds = "retry_after_ms"
        case resetAfterMilliseconds = "reset_after_ms"
    }

    init(_ decision: LimitDecision, of service: String) {
        self.service = service
        isLimited = !decision.isTaken
        limit = decision.capacity
        remaining = decision.remaining
        retryAfterMilliseconds = decision.retryAfter?.wholeMilliseconds ?? -1
        resetAfterMilliseconds = decision.resetAfter.wholeMilliseconds
        name = decision.limit
    }

    /// When to try again, as text; empty: at once.
    var retryAfter: String {
        retryAfterMilliseconds < 0 ? "" : ReadableText.span(milliseconds: retryAfterMilliseconds)
    }

    var table: String {
        Table([
            "service": service,
            "limited": isLimited ? "yes" : "no",
            "limit": "\(limit)",
            "name": name ?? "",
            "remaining": "\(remaining)",
            "retry after": retryAfter,
            "reset after": ReadableText.span(milliseconds: resetAfterMilliseconds),
        ]).text
    }
}

/// All limits of a service that apply to a call, and what they say together.
struct LimitListing: Answer, Sendable {
    struct Limit: Encodable, Sendable {
        var name: String?
        var algorithm: String
        var windowMilliseconds: Int64
        var isPerSubject: Bool
        var isShadow: Bool
        var isLimited: Bool
        var limit: Int
        var remaining: Int
        /// -1: at once.
        var retryAfterMilliseconds: Int64
        var resetAfterMilliseconds: Int64

        private enum CodingKeys: String, CodingKey {
            case name, algorithm, limit, remaining
            case windowMilliseconds = "window_ms"
            case isPerSubject = "per_subject"
            case isShadow = "shadow"
            case isLimited = "limited"
            case retryAfterMilliseconds = "retry_after_ms"
            case resetAfterMilliseconds = "reset_after_ms"
        }

        init(_ standing: LimitStanding) {
            let reading = LimitReading(standing.decision, of: "")
            name = reading.name
            algorithm = standing.algorithm
            windowMilliseconds = standing.window.wholeMilliseconds
            isPerSubject = standing.isPerSubject
            isShadow = standing.isShadow
            isLimited = reading.isLimited
            limit = reading.limit
            remaining = reading.remaining
            retryAfterMilliseconds = reading.retryAfterMilliseconds
            resetAfterMilliseconds = reading.resetAfterMilliseconds
        }

        /// What sets it apart from a plain limit.
        fileprivate var kind: String {
            ([algorithm] + (isPerSubject ? ["per subject"] : []) + (isShadow ? ["shadow"] : [])).joined(separator: ", ")
        }
    }

    var binding: LimitReading
    var limits: [Limit]

    init(_ binding: LimitDecision, of service: String, all: [LimitStanding]) {
        self.binding = LimitReading(binding, of: service)
        limits = all.map(Limit.init)
    }

    private enum CodingKeys: String, CodingKey {
        case limits
    }

    func encode(to encoder: any Encoder) throws {
        try binding.encode(to: encoder)
        var fields = encoder.container(keyedBy: CodingKeys.self)
        try fields.encode(limits, forKey: .limits)
    }

    var table: String {
        guard !limits.isEmpty else { return binding.table }
        var table = Table(["NAME", "LIMIT", "PER", "REMAINING", "RETRY AFTER", "RESET AFTER", "KIND"])
        for limit in limits {
            let retryAfter = limit.retryAfterMilliseconds
            table.add([
                limit.name ?? "", "\(limit.limit)", DurationText.shortest(.milliseconds(limit.windowMilliseconds)),
                "\(limit.remaining)", retryAfter < 0 ? "" : ReadableText.span(milliseconds: retryAfter),
                ReadableText.span(milliseconds: limit.resetAfterMilliseconds), limit.kind,
            ])
        }
        return table.text
    }
}

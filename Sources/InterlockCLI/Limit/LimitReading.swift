import InterlockClient
import InterlockCore

/// The answer of the limits: the numbers of the window with the least left.
struct LimitReading: Answer, Sendable {
    var service: String
    var isLimited: Bool
    var limit: Int64
    var remaining: Int64
    /// -1: at once.
    var retryAfterMilliseconds: Int64
    var resetAfterMilliseconds: Int64

    private enum CodingKeys: String, CodingKey {
        case service, limit, remaining
        case isLimited = "limited"
        case retryAfterMilliseconds = "retry_after_ms"
        case resetAfterMilliseconds = "reset_after_ms"
    }

    init(_ limit: SidecarLimit) {
        service = limit.service
        isLimited = !limit.isGranted
        self.limit = limit.limit
        remaining = limit.remaining
        retryAfterMilliseconds = limit.retryAfter?.wholeMilliseconds ?? -1
        resetAfterMilliseconds = limit.resetAfter.wholeMilliseconds
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
            "remaining": "\(remaining)",
            "retry after": retryAfter,
            "reset after": ReadableText.span(milliseconds: resetAfterMilliseconds),
        ]).text
    }
}

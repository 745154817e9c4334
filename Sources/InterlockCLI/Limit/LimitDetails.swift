import InterlockCommandLine
import InterlockCore
import SidecarListeners

/// The output of a decision, with the numbers of the limit that has the least remaining capacity.
struct LimitDetails: CommandOutput, Sendable {
    let service: String
    let decision: LimitDecision

    init(_ decision: LimitDecision, of service: String) {
        self.service = service
        self.decision = decision
    }

    /// The decision as JSON. `retry_after_ms` is -1 if no time for a retry is known. The limit's name is missing if the
    /// sidecar does not report it.
    var json: JSONValue {
        JSONValue.object([
            "service": .string(service), "limited": .bool(!decision.isAllowed), "limit": JSONValue(decision.limit),
            "remaining": JSONValue(decision.remaining),
            "retry_after_ms": .integer(decision.retryAfter?.wholeMilliseconds ?? -1),
            "reset_after_ms": .integer(decision.resetAfter.wholeMilliseconds), "name": JSONValue(decision.limitName),
        ]).withoutNulls
    }

    func encode(to encoder: any Encoder) throws { try json.encode(to: encoder) }

    /// The time until a retry can succeed, as text; empty if the call was allowed or no retry can succeed.
    var retryAfter: String {
        decision.retryAfter.map { ReadableText.span(milliseconds: $0.wholeMilliseconds) } ?? ""
    }

    var table: String {
        Table([
            "service": service,
            "limited": decision.isAllowed ? "no" : "yes",
            "limit": "\(decision.limit)",
            "name": decision.limitName ?? "",
            "remaining": "\(decision.remaining)",
            "retry after": retryAfter,
            "reset after": ReadableText.span(milliseconds: decision.resetAfter.wholeMilliseconds),
        ]).text
    }
}

/// The output of the limits that apply to a call, and of their combined decision.
struct LimitListing: CommandOutput, Sendable {
    var binding: LimitDetails
    var limits: [LimitState]

    init(_ binding: LimitDecision, of service: String, all: [LimitState]) {
        self.binding = LimitDetails(binding, of: service)
        limits = all
    }

    func encode(to encoder: any Encoder) throws {
        let limits = limits.map { JSONValue.object($0.fields).withoutNulls }
        try binding.json.adding("limits", .array(limits)).encode(to: encoder)
    }

    var table: String {
        guard !limits.isEmpty else { return binding.table }
        var table = Table(["NAME", "LIMIT", "PER", "REMAINING", "RETRY AFTER", "RESET AFTER", "KIND"])
        for limit in limits {
            let decision = limit.decision
            let kind = [limit.algorithm] + (limit.isPerSubject ? ["per subject"] : []) + (limit.isShadow ? ["shadow"] : [])
            table.add([
                decision.limitName ?? "", "\(decision.limit)", DurationText.shortest(limit.window), "\(decision.remaining)",
                LimitDetails(decision, of: binding.service).retryAfter,
                ReadableText.span(milliseconds: decision.resetAfter.wholeMilliseconds), kind.joined(separator: ", "),
            ])
        }
        return table.text
    }
}

package import Interlock
internal import InterlockCore

/// The domains of Envoy's rate limit service as JSON.
package enum DomainListReply {
    /// The maximum number of listed rules, over all domains.
    private static let maximumRules = 1000

    package static func fields(_ domains: [DomainReport]) -> [String: JSONValue] {
        var remainingCount = maximumRules
        var list: [JSONValue] = []
        for domain in domains {
            let rules = domain.rules.prefix(remainingCount)
            remainingCount -= rules.count
            list.append(.object(fields(domain, rules)))
        }
        return ["domains": .array(list)]
    }

    private static func fields(_ report: DomainReport, _ rules: ArraySlice<DomainReport.Rule>) -> [String: JSONValue] {
        [
            "domain": .string(report.domain.name),
            "independent": .bool(report.domain.isIndependent),
            "shadow": .bool(report.domain.isShadow),
            "when_redis_is_down": .string(report.domain.whenRedisIsDown.rawValue),
            "counters": .integer(Int64(report.counterCount)),
            "rules": .array(rules.map { .object(fields($0)) }),
            "rules_total": .integer(Int64(report.rules.count)),
        ]
    }

    private static func fields(_ report: DomainReport.Rule) -> [String: JSONValue] {
        var fields: [String: JSONValue] = [
            "rule": .string(report.path), "name": report.rule.name.map { .string($0) } ?? .null,
            "shadow": .bool(report.rule.isShadow), "limit": .null, "window_ms": .null, "algorithm": .null,
            "ok": .integer(Int64(report.decisions.ok)), "over_limit": .integer(Int64(report.decisions.overLimit)),
            "shadow_refusals": .integer(Int64(report.decisions.shadow)),
        ]
        switch report.rule.limit {
        case .rate(let limit, let isAligned):
            fields["limit"] = .integer(limit.limit)
            fields["window_ms"] = .integer(limit.windowMilliseconds)
            fields["algorithm"] = .string(isAligned ? "aligned" : limit.algorithm.name.rawValue)
        case .blocked: fields["limit"] = .integer(0)
        case .unlimited, nil: break
        }
        return fields
    }
}

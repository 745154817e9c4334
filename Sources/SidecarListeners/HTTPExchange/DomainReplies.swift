package import Interlock
internal import InterlockCore

/// The domains of Envoy's rate limit service as JSON.
package enum DomainListReply {
    /// The maximum number of listed rules, over all domains.
    private static let maximumRules = 1000

    package static func members(_ domains: [DomainReport]) -> [String: JSONValue] {
        var remaining = maximumRules
        var shown: [JSONValue] = []
        for domain in domains {
            let rules = domain.rules.prefix(remaining)
            remaining -= rules.count
            shown.append(.object(members(domain, rules)))
        }
        return ["domains": .list(shown)]
    }

    private static func members(_ report: DomainReport, _ rules: ArraySlice<DomainReport.Rule>) -> [String: JSONValue] {
        [
            "domain": .text(report.domain.name),
            "independent": .flag(report.domain.isIndependent),
            "shadow": .flag(report.domain.isShadow),
            "when_redis_is_down": .text(report.domain.whenRedisIsDown.rawValue),
            "counters": .integer(Int64(report.counters)),
            "rules": .list(rules.map { .object(members($0)) }),
            "rules_total": .integer(Int64(report.rules.count)),
        ]
    }

    private static func members(_ report: DomainReport.Rule) -> [String: JSONValue] {
        var members: [String: JSONValue] = [
            "rule": .text(report.path), "name": report.rule.name.map { .text($0) } ?? .null,
            "shadow": .flag(report.rule.isShadow), "limit": .null, "window_ms": .null, "algorithm": .null,
            "ok": .integer(Int64(report.decisions.ok)), "over_limit": .integer(Int64(report.decisions.overLimit)),
            "shadow_refusals": .integer(Int64(report.decisions.shadow)),
        ]
        switch report.rule.limit {
        case .rate(let limit, let isAligned):
            members["limit"] = .integer(limit.limit)
            members["window_ms"] = .integer(limit.windowMilliseconds)
            members["algorithm"] = .text(isAligned ? "aligned" : limit.algorithm.name.rawValue)
        case .blocked: members["limit"] = .integer(0)
        case .unlimited, nil: break
        }
        return members
    }
}

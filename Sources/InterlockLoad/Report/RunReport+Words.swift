package import InterlockJudge

extension RunReport {
    /// The number of commands that Redis received, such as `12,345, 2.01 per operation`, or `unknown`.
    package var redisUse: String {
        guard let redisCommands else { return "unknown" }
        let perOperation = redisCommandsPerOperation.map { ", \(Figure.decimals($0, 2)) per operation" } ?? ""
        return Figure.decimals(redisCommands, 0) + perOperation
    }
}

extension FaultReport {
    /// The target of the fault, such as `sidecar 2` or `redis`.
    package var target: String {
        if let sidecar { return "sidecar \(sidecar)" }
        return switch kind.target {
        case .clients: "clients"
        case .sidecar, .configuration: "all sidecars"
        case .redis, .quorum, .data, .slots: "redis"
        }
    }
}

extension OperationReport {
    /// The endings that have reasons.
    package enum Ending: String, Hashable, Sendable {
        case refused, failed
    }

    package var refusedCount: Int { Self.sum(refused) }

    package var failedCount: Int { Self.sum(failed) }

    /// The reasons for refused and failed operations, at most 20 for each ending, the most frequent first.
    package var reasons: [(ending: Ending, reason: String, count: Int)] {
        [(Ending.refused, refused), (.failed, failed)].flatMap { ending, counts in
            counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(Self.maximumReasons)
                .map { (ending: ending, reason: $0.key, count: $0.value) }
        }
    }

    private static func sum(_ counts: [String: Int]) -> Int { counts.values.reduce(0, +) }

    private static let maximumReasons = 20
}

extension CheckReport {
    /// The last line of every report, such as `0 violations in 1,234,567 operations`.
    package var verdict: String {
        "\(Figure.count(total)) violation\(total == 1 ? "" : "s") in \(Figure.count(operations)) operations"
    }

    /// Whether no violation was found.
    package var isClean: Bool { total == 0 }

    /// The number of violations, including those not listed in the report.
    package var total: Int { max(violationCount, violations.count) }
}

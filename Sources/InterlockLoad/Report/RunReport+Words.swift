package import InterlockJudge

extension RunReport {
    /// How many commands Redis received: `12,345, 2.01 for each operation`; or that it is not known.
    package var redisUse: String {
        guard let redisCommands else { return "not known" }
        let share = redisCommandsPerOperation.map { ", \(Figure.decimals($0, 2)) for each operation" } ?? ""
        return Figure.decimals(redisCommands, 0) + share
    }
}

extension FaultReport {
    /// What was broken: `sidecar 2`, `redis`.
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
    /// How an operation ended that was not done, and of which there are reasons.
    package enum Ending: String, Hashable, Sendable {
        case refused, failed
    }

    package var refusedCount: Int { Self.sum(refused) }

    package var failedCount: Int { Self.sum(failed) }

    /// Why operations were refused and failed, the most frequent reason of each first; 20 of each at most.
    package var reasons: [(ending: Ending, reason: String, count: Int)] {
        [(Ending.refused, refused), (.failed, failed)].flatMap { ending, counts in
            counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(Self.mostReasons)
                .map { (ending: ending, reason: $0.key, count: $0.value) }
        }
    }

    private static func sum(_ counts: [String: Int]) -> Int { counts.values.reduce(0, +) }

    private static let mostReasons = 20
}

extension CheckReport {
    /// The last line of every report: `0 violations in 1,234,567 operations`.
    package var verdict: String {
        "\(Figure.count(total)) violation\(total == 1 ? "" : "s") in \(Figure.count(operations)) operations"
    }

    /// No promise was seen broken.
    package var isClean: Bool { total == 0 }

    /// All violations that were found, those that are not told included.
    package var total: Int { max(violationCount, violations.count) }
}

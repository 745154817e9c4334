extension OperationReport {
    /// How an operation ended that was not done, and of which there are reasons.
    public enum Ending: String, Hashable, Sendable {
        case refused, failed
    }

    public var refusedCount: Int { Self.sum(refused) }

    public var failedCount: Int { Self.sum(failed) }

    /// Why operations were refused and failed, the most frequent reason of each first; 20 of each at most.
    public var reasons: [(ending: Ending, reason: String, count: Int)] {
        [(Ending.refused, refused), (.failed, failed)].flatMap { ending, counts in
            counts.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(Self.mostReasons)
                .map { (ending: ending, reason: $0.key, count: $0.value) }
        }
    }

    private static func sum(_ counts: [String: Int]) -> Int { counts.values.reduce(0, +) }

    private static let mostReasons = 20
}

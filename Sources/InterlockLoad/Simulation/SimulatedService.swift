internal import InterlockCore

/// A service of a simulated run, the same in all sidecars.
struct SimulatedService {
    /// Its place among its party's.
    let index: Int
    let definition: ServiceDefinition
    let digest: String
    /// What its history is judged by.
    let rules: ServiceRules

    init(index: Int, definition: ServiceDefinition) {
        self.index = index
        self.definition = definition
        digest = definition.digest
        let policy: OutagePolicyName =
            switch definition.whenRedisIsDown {
            case .local: .local
            case .allow: .allow
            case .deny: .deny
            }
        // What the limit opens has no trials.
        let hasTrials = definition.onLimit.action != .trip && !definition.breaker.isMetricsOnly
        rules = ServiceRules(
            name: definition.name, limits: definition.limits.filter { !$0.isShadow }.map(LimitRule.init), whenRedisIsDown: policy,
            halfOpenPermits: hasTrials ? definition.breaker.halfOpenPermits : nil,
            permitLifetime: Self.slightlyLess(definition.permitLifetime.wholeMilliseconds))
    }

    /// The clock of Redis runs up to a hundredth faster or slower than the one by which histories are judged.
    fileprivate static func slightlyLess(_ milliseconds: Int64) -> Int64 { max(1, milliseconds - milliseconds / 100 - 2) }
}

extension LimitRule {
    fileprivate init(_ definition: LimitDefinition) {
        var burst: Int64 = 0
        let algorithm: Algorithm
        switch definition.algorithm {
        case .fixed:
            algorithm = .fixed
        case .sliding:
            algorithm = .sliding
        case .gcra(let ahead):
            algorithm = .gcra
            burst = ahead
        }
        self.init(
            algorithm: algorithm, limit: definition.limit,
            window: SimulatedService.slightlyLess(definition.windowMilliseconds), burst: burst,
            isPerSubject: definition.isPerSubject)
    }
}

internal import InterlockCore

/// Checks that no limit grants more than it allows, in any window; see `LimitBounds`.
///
/// The checker counts calls that are known to be granted within a period. Calls without an answer do not count, so
/// every finding is certain.
///
/// While a fault may cut a sidecar off from Redis, and for the recovery time after it, the sidecar may have granted
/// calls on its own. The checker ignores such grants if the service has the policy `allow`. With `local`, it allows the
/// sidecars' quotas in addition; see `LimitRule.boundsWithoutRedis`. With `deny`, a sidecar grants nothing on its own.
/// Each fault that may lose counts allows the limit once more, and a restarted sidecar gets its quota again.
/// `fleet_size` must equal the number of sidecars, and the proxy must charge every attempt of a resent call.
///
/// Memory grows with services and, for limits by subject, with the subjects with a grant in the last two windows.
struct LimitChecker: HistoryChecker {
    static let invariant = Invariant.limits

    private struct Service: Sendable {
        var rules: ServiceRules
        /// The counters by index of the rule; `nil` for rules by subject.
        var common: [LimitCounter?]
        /// The counters by subject, then by index of the rule; `nil` for common rules.
        var subjects: [Int: [LimitCounter?]] = [:]
        /// The number of subjects that triggers the removal of idle ones.
        var cleanupThreshold = 1024
        /// The time without a grant after which a subject is idle, in milliseconds.
        var idleTimeoutMilliseconds: Int64
    }

    private let rules: HistoryRules
    private var services: [Service]

    init(rules: HistoryRules) {
        self.rules = rules
        services = rules.services.map { service in
            Service(
                rules: service, common: Self.counters(of: service, perSubject: false, rules),
                idleTimeoutMilliseconds: 2
                    * (service.limits.filter(\.isPerSubject).map(\.windowMilliseconds).max() ?? 0))
        }
    }

    /// The number of grants that could not be assigned to a fixed window, without those of dropped subjects.
    var undecidedGrantCount: Int {
        services.reduce(0) { sum, service in
            let counters = service.common + service.subjects.values.flatMap { $0 }
            return sum + counters.reduce(0) { $0 + ($1?.undecidedGrantCount ?? 0) }
        }
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .ended(let call, .done(let success), _):
            guard let demand = call.demand else { return }
            callGranted(demand, call, success, at: step.at, faults: faults, into: &violations)
        case .faultEnded(_, let kind, _) where kind.mayCause(.lostCounts):
            forEachCounter { $0.countsMayBeLost(at: step.at) }
        case .faultEnded(_, let kind, _) where kind.mayCause(.newProcess):
            forEachCounter { $0.sidecarRestarted() }
        case .invoked, .ended, .wrote, .linked, .forced, .breakerSeen, .faultBegan, .faultEnded, .finished:
            return
        }
    }

    private mutating func forEachCounter(_ body: (inout LimitCounter) -> Void) {
        func change(_ counters: inout [LimitCounter?]) {
            for rule in counters.indices {
                guard var counter = counters[rule] else { continue }
                counters[rule] = nil
                body(&counter)
                counters[rule] = counter
            }
        }
        for service in services.indices {
            change(&services[service].common)
            for subject in services[service].subjects.keys {
                if var counters = services[service].subjects.updateValue([], forKey: subject) {
                    change(&counters)
                    services[service].subjects[subject] = counters
                }
            }
        }
    }

    private mutating func callGranted(
        _ demand: Call.Demand, _ call: Call, _ success: OperationSuccess, at instant: Instant, faults: FaultLog,
        into violations: inout [Violation]
    ) {
        let rules = services[demand.service].rules
        guard !rules.limits.isEmpty else { return }
        var isDoubtful = false
        if rules.whenRedisIsDown != .deny, !faults.isEmpty {
            let since = call.invoked.advanced(byMilliseconds: -self.rules.recoveryMilliseconds)
            isDoubtful = faults.wasActive(.outage, sidecar: call.sidecar, since: since)
            if isDoubtful, rules.whenRedisIsDown == .allow { return }
        }
        if demand.subject != nil { addSubjectIfNew(of: demand, for: call, at: instant, faults: faults) }
        for (index, rule) in rules.limits.enumerated() {
            guard !rule.isPerSubject || demand.subject != nil else { continue }
            var grant = LimitCounter.Grant(
                cost: demand.cost, invoked: call.invoked, ended: instant, isDoubtful: isDoubtful,
                resetAfterMilliseconds: nil)
            if case .taken(let limit, _, let resetAfterMilliseconds) = success, rule.limit == limit,
                rules.limits.count(where: { $0.limit == limit }) == 1
            {
                grant.resetAfterMilliseconds = resetAfterMilliseconds
            }
            let finding =
                if rule.isPerSubject, let subject = demand.subject {
                    services[demand.service].subjects[subject]?[index]?.add(grant, faults: faults)
                } else {
                    services[demand.service].common[index]?.add(grant, faults: faults)
                }
            guard let finding else { continue }
            let subjectSuffix = rule.isPerSubject ? " of subject \(demand.subject ?? 0)" : ""
            report(
                at: instant, into: &violations,
                """
                \(rules.name): limit \(rule.limit) per \(rule.windowMilliseconds) ms, \(rule.algorithm.rawValue)\
                \(subjectSuffix): \(finding)
                """)
        }
    }

    /// Adds counters for a new subject. If there are too many subjects, first drops the idle ones.
    private mutating func addSubjectIfNew(
        of demand: Call.Demand, for call: Call, at instant: Instant, faults: FaultLog
    ) {
        let serviceIndex = demand.service
        let service = services[serviceIndex].rules
        guard let subject = demand.subject, services[serviceIndex].idleTimeoutMilliseconds > 0,
            services[serviceIndex].subjects[subject] == nil
        else { return }
        if services[serviceIndex].subjects.count >= services[serviceIndex].cleanupThreshold {
            let idleSince = instant.advanced(byMilliseconds: -services[serviceIndex].idleTimeoutMilliseconds)
            services[serviceIndex].subjects = services[serviceIndex].subjects.filter { _, counters in
                counters.contains { $0.map { $0.lastGrant > idleSince } ?? false }
            }
            services[serviceIndex].cleanupThreshold = max(1024, 2 * services[serviceIndex].subjects.count)
        }
        var counters = Self.counters(of: service, perSubject: true, rules)
        for end in faults.endsOfCountLosingFaults(since: call.invoked) {
            for rule in counters.indices { counters[rule]?.countsMayBeLost(at: end) }
        }
        services[serviceIndex].subjects[subject] = counters
    }

    private static func counters(of service: ServiceRules, perSubject: Bool, _ rules: HistoryRules) -> [LimitCounter?] {
        service.limits.map { rule in
            rule.isPerSubject == perSubject
                ? LimitCounter(
                    rule, whenRedisIsDown: service.whenRedisIsDown, sidecars: rules.sidecars, clockDrift: rules.clockDrift) : nil
        }
    }
}

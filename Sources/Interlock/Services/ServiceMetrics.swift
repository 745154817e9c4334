internal import CoreMetrics
internal import InterlockCore

/// The metrics of one service.
final class ServiceMetrics {
    let taken: Tally
    let limited: Tally
    let failed: Counter
    let remembered: Counter
    let permitsGranted: Tally
    let permitsRefused: Tally
    /// The number of permit refusals because of unreported outcomes.
    let refusedForUnreported: Counter
    let slotsInUse: Gauge
    let permitsWaiting: Gauge
    let waiting: Gauge
    let subjects: Gauge
    /// The number of calls whose subject shared a counter because the service had too many subjects.
    let subjectOverflows: Counter
    let trips: Counter
    private let service: String
    /// The shadow limits that have counted a refusal.
    private var shadowLimits: Set<String> = []
    /// The number of refusals of each limit, by the limit's name. Bounded by the number of configured limits.
    private var limitRefusals: [String: Tally] = [:]
    private let refusals: [PermitResult.Reason: Counter]
    private let states: [BreakerSnapshot.State: Gauge]
    private let forcedStates: [BreakerSnapshot.Forced: Gauge]
    private let outcomes: [Outcome: Tally]

    init(service: String) {
        self.service = service
        func tally(_ label: String, _ decision: String) -> Tally {
            Tally(label: label, dimensions: [("service", service), ("decision", decision)])
        }
        taken = tally("interlock_limit_decisions_total", "taken")
        limited = tally("interlock_limit_decisions_total", "limited")
        failed = Counter(
            label: "interlock_limit_decisions_total", dimensions: [("service", service), ("decision", "failed")])
        remembered = Counter(label: "interlock_limit_remembered_refusals_total", dimensions: [("service", service)])
        permitsGranted = tally("interlock_permit_decisions_total", "granted")
        permitsRefused = tally("interlock_permit_decisions_total", "refused")
        refusedForUnreported = Counter(label: "interlock_permits_unreported_total", dimensions: [("service", service)])
        slotsInUse = Gauge(label: "interlock_service_slots_in_use", dimensions: [("service", service)])
        permitsWaiting = Gauge(label: "interlock_permits_waiting", dimensions: [("service", service)])
        refusals = Dictionary(
            uniqueKeysWithValues: PermitResult.Reason.allCases.map { reason in
                (
                    reason,
                    Counter(
                        label: "interlock_permit_refusals_total",
                        dimensions: [("service", service), ("reason", reason.rawValue)])
                )
            })
        waiting = Gauge(label: "interlock_limit_waiting", dimensions: [("service", service)])
        subjects = Gauge(label: "interlock_limit_subjects", dimensions: [("service", service)])
        subjectOverflows = Counter(label: "interlock_limit_subject_overflows_total", dimensions: [("service", service)])
        trips = Counter(label: "interlock_breaker_trips_total", dimensions: [("service", service)])
        states = Dictionary(
            uniqueKeysWithValues: BreakerSnapshot.State.allCases.map { state in
                (state, Gauge(label: "interlock_breaker_state", dimensions: [("service", service), ("state", state.rawValue)]))
            })
        forcedStates = Dictionary(
            uniqueKeysWithValues: BreakerSnapshot.Forced.allCases.map { state in
                (state, Gauge(label: "interlock_breaker_forced", dimensions: [("service", service), ("state", state.rawValue)]))
            })
        outcomes = Dictionary(
            uniqueKeysWithValues: Outcome.allCases.map { outcome in
                (
                    outcome,
                    Tally(label: "interlock_outcomes_total", dimensions: [("service", service), ("outcome", outcome.rawValue)])
                )
            })
    }

    /// Sets the gauges of the current state and of the forced state to 1, and the others to 0.
    func record(state: BreakerSnapshot.State, forced: BreakerSnapshot.Forced?) {
        for (candidate, gauge) in states { gauge.record(candidate == state ? 1 : 0) }
        for (candidate, gauge) in forcedStates { gauge.record(candidate == forced ? 1 : 0) }
    }

    func countRefusal(_ reason: PermitResult.Reason) {
        permitsRefused.increment()
        refusals[reason]?.increment()
    }

    /// Counts the calls that a limit refused.
    func countRefusal(_ calls: Int, by limit: String?) {
        guard let limit else { return }
        if let existing = limitRefusals[limit] { return existing.increment(by: calls) }
        let tally = Tally(label: "interlock_limit_refusals_total", dimensions: [("service", service), ("limit", limit)])
        limitRefusals[limit] = tally
        tally.increment(by: calls)
    }

    /// Returns the number of calls that a limit has refused since the service was configured.
    func refusals(by limit: String) -> Int64 { limitRefusals[limit]?.count ?? 0 }

    /// Counts the calls that shadow limits would have refused.
    func countShadowRefusals(_ verdict: BatchVerdict, _ batch: LimitBatch) {
        for (counterVerdict, counter) in zip(verdict.counters, batch.counters) where counterVerdict.excess > 0 {
            let limit = batch.definitions[counter.definitionIndex].name
            shadowLimits.insert(limit)
            shadowRefusals(of: limit).increment(by: counterVerdict.excess)
        }
    }

    /// Creates the counter of a shadow limit's refusals on each use, because limits change with the configuration. The
    /// backend identifies the counter by its labels.
    private func shadowRefusals(of limit: String) -> Counter {
        Counter(label: "interlock_limit_shadow_refusals_total", dimensions: [("service", service), ("limit", limit)])
    }

    /// The decisions on the service since it was configured.
    var counts: ServiceCounts {
        func count(_ outcome: Outcome) -> Int64 { outcomes[outcome]?.count ?? 0 }
        return ServiceCounts(
            callsTaken: taken.count, callsLimited: limited.count, permitsGranted: permitsGranted.count,
            permitsRefused: permitsRefused.count, outcomesGood: count(.ok), outcomesFailed: count(.error))
    }

    func record(_ outcome: Outcome) {
        outcomes[outcome]?.increment()
    }

    /// Removes the metrics of a service that is no longer configured, so that its last values are not exported forever.
    func destroy() {
        for counter in [failed, remembered, refusedForUnreported, subjectOverflows, trips] + Array(refusals.values) {
            counter.destroy()
        }
        let tallies = Array(outcomes.values) + Array(limitRefusals.values)
        for tally in [taken, limited, permitsGranted, permitsRefused] + tallies {
            tally.destroy()
        }
        for gauge in [slotsInUse, permitsWaiting, waiting, subjects] + Array(states.values) + Array(forcedStates.values) {
            gauge.destroy()
        }
        for limit in shadowLimits { shadowRefusals(of: limit).destroy() }
    }
}

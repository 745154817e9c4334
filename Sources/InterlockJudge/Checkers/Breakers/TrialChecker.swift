internal import InterlockCore

/// Checks that a half-open breaker grants no more trial permits in the fleet than configured.
///
/// The checker counts permits that were granted in the half-open state, have not been reported and have not expired. A
/// reported failure opens the breaker again, and a report of a later generation replaces the state; in both cases,
/// active trials no longer count. If sidecars were cut off from Redis, that report may arrive up to half a second after
/// the finding.
///
/// While Redis is down, a sidecar cannot count the fleet's trials. The checker therefore ignores permits that a sidecar
/// may have granted then, unless the service has the policy `deny` and the fleet's breaker was not closed. A sidecar
/// that opened a breaker on its own also grants its own trials. The checker drops its state when Redis loses its data
/// or its clock jumps. A breaker that a limit opens has no trials: its rules have no `halfOpenPermits`. Uses O(services
/// + trial permits) memory.
struct TrialChecker: HistoryChecker {
    static let invariant = Invariant.trials

    private struct Trial: Sendable {
        var permit: PermitNumber
        /// The earliest time when the trial may no longer count.
        var expiresAt: Instant
    }

    private struct Service: Sendable {
        var rules: ServiceRules
        var trials: [Trial] = []
        /// The newest reported generation.
        var generation: Int64 = 0
        /// The fleet's state; `nil` if none was reported, as for a breaker that was never open.
        var state: BreakerSnapshot.State?
    }

    private let recoveryMilliseconds: Int64
    private let clockDrift: Double
    private var services: [Service]
    private var pending = PendingFindings()

    init(rules: HistoryRules) {
        recoveryMilliseconds = rules.recoveryMilliseconds
        clockDrift = rules.clockDrift
        services = rules.services.map { Service(rules: $0) }
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        pending.finalize(at: step.at, into: &violations)
        switch step.kind {
        case .invoked(let call, _):
            guard case .report(let service, let permit, let isOK) = call.operation else { return }
            if isOK {
                services[service].trials.removeAll { $0.permit == permit }
            } else {
                services[service].trials.removeAll(keepingCapacity: true)
            }
        case .ended(let call, .done(.permitted(let permit, state: .halfOpen)), _):
            trialGranted(permit, call, at: step.at, faults: faults, into: &violations)
        case .breakerSeen(_, let service, let state, let generation, _):
            guard generation > services[service].generation else { return }
            services[service].generation = generation
            services[service].state = state
            services[service].trials.removeAll(keepingCapacity: true)
            pending.explain(service, generation: generation, at: step.at)
        case .faultBegan(_, let kind, _) where kind.mayCause(.lostCounts),
            .faultEnded(_, let kind, _) where kind.mayCause(.lostCounts):
            for service in services.indices {
                services[service].trials.removeAll(keepingCapacity: true)
                services[service].state = nil
            }
            pending.removeAll()
        case .ended, .wrote, .linked, .forced, .faultBegan, .faultEnded, .finished:
            return
        }
    }

    private mutating func trialGranted(
        _ permit: PermitNumber, _ call: Call, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        guard let service = call.demand?.service, let maximum = services[service].rules.halfOpenPermits else { return }
        let rules = services[service].rules
        guard !faults.wasActive(.lostCounts, since: call.invoked) else { return }
        let since = call.invoked.advanced(byMilliseconds: -recoveryMilliseconds)
        if faults.wasActive(.outage, sidecar: call.sidecar, since: since) {
            guard rules.whenRedisIsDown == .deny, let state = services[service].state, state != .closed else { return }
        }
        services[service].trials.removeAll { $0.expiresAt <= instant }
        // Redis rounds down to whole milliseconds.
        let lifetimeMilliseconds = Int64(Double(rules.permitLifetimeMilliseconds) * (1 - clockDrift)) - 1
        let expiresAt = call.invoked.advanced(byMilliseconds: lifetimeMilliseconds)
        services[service].trials.append(Trial(permit: permit, expiresAt: expiresAt))
        let count = services[service].trials.count
        guard count > maximum else { return }
        // Removing one trial makes sure that the checker reports each surplus trial once.
        services[service].trials.removeFirst()
        let violation = Violation(
            Self.invariant, at: instant,
            "\(rules.name): \(count) trial permits are in use, the last one \(permit) of client \(call.client); the breaker allows \(maximum)"
        )
        // Two half-open states are at least an open time apart. Only an outage can delay a report that long.
        guard faults.wasActive(.outage, since: call.invoked.advanced(byMilliseconds: -recoveryMilliseconds)) else {
            return violations.append(violation)
        }
        pending.append(
            PendingFindings.Finding(
                service: service, generation: services[service].generation, until: nil, violation: violation))
    }
}

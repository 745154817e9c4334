internal import InterlockCore

/// Checks that a lease can be renewed while Redis is full. The checker judges a renewal only if no other
/// fault cuts the sidecar off from Redis. It keeps no state.
struct FullRedisChecker: HistoryChecker {
    static let invariant = Invariant.renewals

    private let recoveryMilliseconds: Int64

    init(rules: HistoryRules) {
        recoveryMilliseconds = rules.recoveryMilliseconds
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        guard case .ended(let call, .failed(let code), _) = step.kind, case .renew(let lock, let lease, _) = call.operation,
            code == "UNAVAILABLE"
        else { return }
        let since = call.invoked.advanced(byMilliseconds: -recoveryMilliseconds)
        guard faults.wasActive(.outage, sidecar: call.sidecar, since: call.invoked),
            !faults.wasActive(.cutOff, sidecar: call.sidecar, since: since),
            !faults.wasActive(.silence, sidecar: call.sidecar, since: since), !faults.wasActive(.lostExclusivity, since: since)
        else { return }
        report(
            at: step.at, into: &violations,
            "lock \(lock): client \(call.client) cannot renew its lease \(lease) at sidecar \(call.sidecar) while Redis is full")
    }
}

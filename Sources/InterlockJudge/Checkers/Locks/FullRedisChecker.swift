internal import InterlockCore

/// Checks that a lease can be renewed while Redis is full. Judges a renewal only if no other fault cuts the sidecar off
/// from Redis. Keeps no state.
struct FullRedisChecker: HistoryChecker {
    static let promise = Promise.renewals

    private let recovery: Int64

    init(rules: HistoryRules) {
        recovery = rules.recovery
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        guard case .ended(let call, .failed(let code), _) = step.what, case .renew(let lock, let lease, _) = call.operation,
            code == "UNAVAILABLE"
        else { return }
        let since = call.invoked.advanced(byMilliseconds: -recovery)
        guard faults.touches(.outage, sidecar: call.sidecar, since: call.invoked),
            !faults.touches(.cutOff, sidecar: call.sidecar, since: since),
            !faults.touches(.silence, sidecar: call.sidecar, since: since), !faults.touches(.lostExclusivity, since: since)
        else { return }
        report(
            at: step.at, into: &violations,
            "lock \(lock): client \(call.client) cannot renew its lease \(lease) at sidecar \(call.sidecar) while Redis is full")
    }
}

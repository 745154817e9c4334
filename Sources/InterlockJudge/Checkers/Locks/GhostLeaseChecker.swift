internal import InterlockCore

/// Who is told that a lock is held has not got it: a lease that nobody was granted cannot be released.
///
/// Seen when a client that was refused releases what its OWNER may have: a lease that no answer has told it of. Bounded by clients.
struct GhostLeaseChecker: HistoryChecker {
    static let promise = Promise.freeLocks

    /// Those who release what they were never granted, and have no answer yet.
    private var doubters: Set<Int> = []

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.what {
        case .invoked(let call, nil):
            if case .release = call.operation { doubters.insert(call.client) }
        case .ended(let call, let ending, _):
            guard case .release(let lock, _) = call.operation, doubters.remove(call.client) != nil, case .done = ending else {
                return
            }
            violations.append(
                Violation(
                    Self.promise, at: step.at,
                    """
                    lock \(lock): client \(call.client) had it, as its release at sidecar \(call.sidecar) says, and was told that it \
                    is held
                    """))
        default:
            return
        }
    }
}

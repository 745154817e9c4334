internal import InterlockCore

/// Checks that every sidecar serves again within the rules' recovery time after a fault.
///
/// A sidecar serves again once an operation that was invoked after the fault is done, or is refused for a reason that
/// only Redis can know. The checker reports an operation that was invoked after the recovery time and fails or has no
/// answer, if its sidecar has not served since the fault. Refusals that do not need Redis, such as by an open
/// breaker, prove nothing. The checker judges nothing if another fault was active at the end of the fault, and stops
/// when another begins. Uses O(sidecars) memory.
struct RecoveryChecker: HistoryChecker {
    static let invariant = Invariant.recovery

    private struct Recovery: Sendable {
        var fault: Int
        var kind: FaultKind
        var began: Instant
        /// The sidecars in use, each with the time when it served again.
        var sidecars: [Int: Instant?] = [:]
        /// The sidecars whose violation was already reported.
        var reportedSidecars: Set<Int> = []
    }

    private let maximumRecoveryMilliseconds: Int64
    private let sidecarCount: Int
    private var current: Recovery?
    /// The time in milliseconds until every sidecar in use served again, by fault number.
    private(set) var recoveryMilliseconds: [Int: Int64] = [:]

    init(rules: HistoryRules) {
        maximumRecoveryMilliseconds = rules.recoveryMilliseconds
        sidecarCount = rules.sidecars
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .invoked(let call, _):
            guard current != nil, current?.sidecars[call.sidecar] == nil else { return }
            current?.sidecars[call.sidecar] = .some(nil)
        case .ended(let call, let ending, _):
            guard current != nil else { return }
            operationEnded(call, ending, at: step.at, into: &violations)
        case .faultBegan, .finished:
            finishRecovery()
        case .faultEnded(let fault, let kind, _):
            finishRecovery()
            if faults.activeCount == 0 { current = Recovery(fault: fault, kind: kind, began: step.at) }
        case .wrote, .linked, .forced, .breakerSeen:
            return
        }
    }

    private mutating func operationEnded(
        _ call: Call, _ ending: OperationEnding, at instant: Instant, into violations: inout [Violation]
    ) {
        guard let recovery = current, call.invoked >= recovery.began, let servedAt = recovery.sidecars[call.sidecar],
            servedAt == nil
        else { return }
        switch ending.showsRedisAccess {
        case true?:
            current?.sidecars[call.sidecar] = instant
            if current?.sidecars.count == sidecarCount, current?.sidecars.values.allSatisfy({ $0 != nil }) == true {
                finishRecovery()
            }
        case false?:
            guard call.invoked >= recovery.began.advanced(byMilliseconds: maximumRecoveryMilliseconds),
                !recovery.reportedSidecars.contains(call.sidecar)
            else { return }
            current?.reportedSidecars.insert(call.sidecar)
            let elapsedMilliseconds = (call.invoked.nanoseconds - recovery.began.nanoseconds) / 1_000_000
            report(
                at: instant, into: &violations,
                """
                sidecar \(call.sidecar) does not serve \(elapsedMilliseconds) ms after the end of fault \
                \(recovery.fault) (\(recovery.kind.rawValue)): \(call.operation.kind.rawValue) of client \
                \(call.client) \(ending.summary); expected at most \(maximumRecoveryMilliseconds) ms
                """)
        case nil:
            return
        }
    }

    /// Ends this recovery, and records its duration if every sidecar in use has served.
    private mutating func finishRecovery() {
        defer { current = nil }
        guard let current, !current.sidecars.isEmpty else { return }
        var lastServed = current.began
        for served in current.sidecars.values {
            guard let served else { return }
            lastServed = max(lastServed, served)
        }
        recoveryMilliseconds[current.fault] = lastServed.millisecondsRoundedUp(since: current.began)
    }
}

extension OperationEnding {
    /// Whether this ending shows that the sidecar reaches Redis; `nil` if it proves nothing.
    fileprivate var showsRedisAccess: Bool? {
        switch self {
        case .done: true
        case .refused(.held), .refused(.lost), .refused(.limited): true
        case .refused(.open), .refused(.busy), .refused(.other): nil
        case .failed(let code): Self.callerErrorCodes.contains(String(code.prefix { $0 != ":" })) ? nil : false
        case .unknown(let reason): [OperationEnding.vanished, OperationEnding.abandoned].contains(reason) ? nil : false
        }
    }

    /// The codes of the caller's mistakes, which a sidecar detects without Redis.
    private static let callerErrorCodes: Set<String> = ["INVALID", "UNKNOWN", "NOAUTH", "NOPERM"]

    /// The ending as findings describe it.
    fileprivate var summary: String {
        switch self {
        case .done: "succeeded"
        case .refused(let refusal): "was refused: \(refusal.name)"
        case .failed(let code): "failed: \(code)"
        case .unknown(let reason): "has no answer: \(reason)"
        }
    }
}

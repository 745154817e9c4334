internal import InterlockCore

/// Checks that every sidecar serves again within the rules' recovery time after a fault.
///
/// A sidecar serves again once an operation that was invoked after the fault is done, or is refused for a reason that
/// only Redis can know. A violation is reported if an operation that was invoked after the recovery time fails or has
/// no answer, and the sidecar has not served since the fault. Refusals that do not need Redis, such as by an open
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
        /// The sidecars that were already reported.
        var reported: Set<Int> = []
    }

    private let recovery: Int64
    private let sidecarCount: Int
    private var current: Recovery?
    /// The time in milliseconds until every sidecar in use served again, by fault number.
    private(set) var recoveries: [Int: Int64] = [:]

    init(rules: HistoryRules) {
        recovery = rules.recovery
        sidecarCount = rules.sidecars
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .invoked(let call, _):
            guard current != nil, current?.sidecars[call.sidecar] == nil else { return }
            current?.sidecars[call.sidecar] = .some(nil)
        case .ended(let call, let ending, _):
            guard current != nil else { return }
            ended(call, ending, at: step.at, into: &violations)
        case .faultBegan, .finished:
            close()
        case .faultEnded(let fault, let kind, _):
            close()
            if faults.activeCount == 0 { current = Recovery(fault: fault, kind: kind, began: step.at) }
        case .wrote, .linked, .forced, .breakerSeen:
            return
        }
    }

    private mutating func ended(_ call: Call, _ ending: OperationEnding, at instant: Instant, into violations: inout [Violation])
    {
        guard let recovery = current, call.invoked >= recovery.began, let served = recovery.sidecars[call.sidecar], served == nil
        else { return }
        switch ending.showsRedisAccess {
        case true?:
            current?.sidecars[call.sidecar] = instant
            if current?.sidecars.count == sidecarCount, current?.sidecars.values.allSatisfy({ $0 != nil }) == true { close() }
        case false?:
            guard call.invoked >= recovery.began.advanced(byMilliseconds: self.recovery),
                !recovery.reported.contains(call.sidecar)
            else { return }
            current?.reported.insert(call.sidecar)
            let lasted = (call.invoked.nanoseconds - recovery.began.nanoseconds) / 1_000_000
            report(
                at: instant, into: &violations,
                """
                sidecar \(call.sidecar) does not serve \(lasted) ms after the end of fault \(recovery.fault) \
                (\(recovery.kind.rawValue)): \(call.operation.kind.rawValue) of client \(call.client) \(ending.summary); expected at most \(self.recovery) ms
                """)
        case nil:
            return
        }
    }

    /// Stops watching this recovery.
    private mutating func close() {
        defer { current = nil }
        guard let current, !current.sidecars.isEmpty else { return }
        var last = current.began
        for served in current.sidecars.values {
            guard let served else { return }
            last = max(last, served)
        }
        recoveries[current.fault] = last.millisecondsRoundedUp(since: current.began)
    }
}

extension OperationEnding {
    /// Whether this answer shows that the sidecar reaches Redis; `nil` if it shows neither.
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

    fileprivate var summary: String {
        switch self {
        case .done: "succeeded"
        case .refused(let refusal): "was refused: \(refusal.name)"
        case .failed(let code): "failed: \(code)"
        case .unknown(let reason): "has no answer: \(reason)"
        }
    }
}

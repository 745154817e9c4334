internal import InterlockCore

/// Checks that every operation ends within its wait plus the rules' `patienceMilliseconds`, either with an answer or
/// because its connection is closed. If a fault stops or kills its sidecar in the meantime, both times count from the
/// end of that fault, because the sidecar may not have read the request before.
///
/// The checker reports operations that never end when the history ends.
struct AnsweredCallChecker: HistoryChecker {
    static let invariant = Invariant.answers

    private let patienceMilliseconds: Int64

    init(rules: HistoryRules) {
        patienceMilliseconds = rules.patienceMilliseconds
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .ended(let call, _, _): judge(call, "took", at: step.at, faults: faults, into: &violations)
        case .finished(let open):
            for call in open { judge(call, "has no answer after", at: step.at, faults: faults, into: &violations) }
        default: return
        }
    }

    private func judge(
        _ call: Call, _ verb: String, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        var due = call.invoked.advanced(byMilliseconds: call.operation.waitMilliseconds)
        guard instant > due.advanced(byMilliseconds: patienceMilliseconds) else { return }
        guard !faults.isActive(.silence, sidecar: call.sidecar) else { return }
        let silenceEnd = faults.lastEnd(of: .silence, sidecar: call.sidecar)
        if silenceEnd >= call.invoked {
            due = max(due, silenceEnd.advanced(byMilliseconds: call.operation.waitMilliseconds))
        }
        guard instant > due.advanced(byMilliseconds: patienceMilliseconds) else { return }
        let elapsedMilliseconds = (instant.nanoseconds - call.invoked.nanoseconds) / 1_000_000
        report(
            at: instant, into: &violations,
            """
            \(call.operation.kind.rawValue) of client \(call.client) at sidecar \(call.sidecar) \(verb) \
            \(elapsedMilliseconds) ms; expected at most its wait of \(call.operation.waitMilliseconds) ms plus \
            \(patienceMilliseconds) ms
            """)
    }
}

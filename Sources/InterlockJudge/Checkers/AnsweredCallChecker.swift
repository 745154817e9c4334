internal import InterlockCore

/// Checks that every operation ends within its wait plus the rules' `patience`, either with an answer or because its
/// connection is closed. If its sidecar is stopped or killed in the meantime, both times count from the end of that
/// fault, because the sidecar may not have read the request before.
///
/// Operations that never end are reported at the end of the history.
struct AnsweredCallChecker: HistoryChecker {
    static let invariant = Invariant.answers

    private let patience: Int64

    init(rules: HistoryRules) {
        patience = rules.patience
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.kind {
        case .ended(let call, _, _): judge(call, "took", at: step.at, faults: faults, into: &violations)
        case .finished(let open):
            for call in open { judge(call, "has no answer after", at: step.at, faults: faults, into: &violations) }
        default: return
        }
    }

    private func judge(_ call: Call, _ phrase: String, at instant: Instant, faults: FaultLog, into violations: inout [Violation])
    {
        var due = call.invoked.advanced(byMilliseconds: call.operation.wait)
        guard instant > due.advanced(byMilliseconds: patience) else { return }
        guard !faults.isActive(.silence, sidecar: call.sidecar) else { return }
        let silenceEnd = faults.lastEnd(of: .silence, sidecar: call.sidecar)
        if silenceEnd >= call.invoked { due = max(due, silenceEnd.advanced(byMilliseconds: call.operation.wait)) }
        guard instant > due.advanced(byMilliseconds: patience) else { return }
        let lasted = (instant.nanoseconds - call.invoked.nanoseconds) / 1_000_000
        report(
            at: instant, into: &violations,
            """
            \(call.operation.kind.rawValue) of client \(call.client) at sidecar \(call.sidecar) \(phrase) \(lasted) ms; \
            expected at most its wait of \(call.operation.wait) ms plus \(patience) ms
            """)
    }
}

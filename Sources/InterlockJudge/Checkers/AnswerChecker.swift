internal import InterlockCore

/// Every operation has ended within the time it may wait and the patience of the rules: with an answer, or because its
/// connection was closed. When its sidecar was stopped or killed meanwhile, both count from the end of that: it may have read the
/// request only then.
///
/// What never ends is found when the history does.
struct AnswerChecker: HistoryChecker {
    static let promise = Promise.answers

    private let patience: Int64

    init(rules: HistoryRules) {
        patience = rules.patience
    }

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        guard case .ended(let call, _, _) = step.what else { return }
        judge(call, "was answered", at: step.at, faults: faults, into: &violations)
    }

    mutating func finish(open calls: [Call], at end: Instant, faults: FaultLog, into violations: inout [Violation]) {
        for call in calls { judge(call, "has no answer", at: end, faults: faults, into: &violations) }
    }

    private func judge(_ call: Call, _ word: String, at instant: Instant, faults: FaultLog, into violations: inout [Violation]) {
        var due = call.invoked.advanced(byMilliseconds: call.operation.wait)
        guard instant > due.advanced(byMilliseconds: patience) else { return }
        guard !faults.isUnderWay(.silence, sidecar: call.sidecar) else { return }
        let heard = faults.lastEnd(of: .silence, sidecar: call.sidecar)
        if heard >= call.invoked { due = max(due, heard.advanced(byMilliseconds: call.operation.wait)) }
        guard instant > due.advanced(byMilliseconds: patience) else { return }
        let lasted = (instant.nanoseconds - call.invoked.nanoseconds) / 1_000_000
        violations.append(
            Violation(
                Self.promise, at: instant,
                """
                \(call.operation.kind.rawValue) of client \(call.client) at sidecar \(call.sidecar) \(word) after \(lasted) ms; it might \
                wait for \(call.operation.wait) ms, and the patience is \(patience) ms
                """))
    }
}

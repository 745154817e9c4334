public import InterlockJudge
public import Interlock
internal import InterlockCore
internal import NIOConcurrencyHelpers

/// Carries a `FaultPlan` out on a fleet of the harness's own.
///
/// A fault is noted before it is made, and noted as over when what it broke is whole again: a killed process is ready again, a
/// stopped one answers again, Redis serves again, its clock shows what it is to show. Whoever was cut off may still be
/// reconnecting then. Everything is mended when `run` returns, also on cancellation. What cannot be mended in time is a
/// violation with the log of who failed, and the last fault of the run.
public struct FaultRig: Sendable {
    /// What was broken, and what did not become whole again.
    public struct Outcome: Sendable {
        /// In the order in which they began.
        public var faults: [FaultReport] = []
        public var violations: [Violation] = []
        /// The kinds that were planned and that this machine has not got what it takes for, and what that is.
        public var missing: [FaultKind: String] = [:]
    }

    private struct State {
        var outcome = Outcome()
        var isBroken = false
    }

    let fleet: OwnFleet
    let vanish: (@Sendable (Int) async -> Void)?
    private let plan: FaultPlan
    private let time: TimeSource
    private let log: @Sendable (String) -> Void
    private let note: @Sendable (HistoryEvent.What) async -> Void
    private let state = NIOLockedValueBox(State())

    /// - Parameters:
    ///   - plan: made for as many sidecars as the fleet has, and of kinds that it was started for.
    ///   - time: the clock of `Violation.at`.
    ///   - vanish: makes so many clients go without a word; `nil`: there are none that could.
    ///   - log: takes a line for everything that is done, with its time from the beginning of the run.
    ///   - note: records in the run's history, before it returns.
    public init(
        fleet: OwnFleet, plan: FaultPlan, time: TimeSource = .system, vanish: (@Sendable (Int) async -> Void)? = nil,
        log: @escaping @Sendable (String) -> Void = { _ in }, note: @escaping @Sendable (HistoryEvent.What) async -> Void
    ) {
        self.fleet = fleet
        self.plan = plan
        self.time = time
        self.vanish = vanish
        self.log = log
        self.note = note
    }

    /// Makes and mends all faults of the plan; returns when the last is over, or soon after it was cancelled.
    /// - Parameter start: when the run began.
    public func run(since start: ContinuousClock.Instant = .now) async -> Outcome {
        let faults = plan.faults.filter { isPossible($0) }
        await withTaskGroup(of: Void.self) { group in
            // Faults of one target follow each other, however long the mending takes.
            for (_, own) in Dictionary(grouping: faults, by: \.act.target) {
                group.addTask {
                    for fault in own { await carryOut(fault, since: start) }
                }
            }
        }
        return state.withLockedValue { state in
            state.outcome.faults.sort { $0.began < $1.began }
            return state.outcome
        }
    }

    private func isPossible(_ fault: PlannedFault) -> Bool {
        let reason: String? =
            switch fault.act {
            case .vanish where vanish == nil: "there are no clients that could vanish"
            case .clock where fleet.clock == nil: fleet.missing[.clock] ?? "the fleet was started without a clock that moves"
            case .partition, .delay, .trickle, .reset: fleet.proxies.isEmpty ? "the fleet was started without proxies" : nil
            default: nil
            }
        guard let reason else { return true }
        let isNew = state.withLockedValue { $0.outcome.missing.updateValue(reason, forKey: fault.kind) == nil }
        if isNew { log("missing: \(fault.kind.rawValue): \(reason)") }
        return false
    }

    private func carryOut(_ fault: PlannedFault, since start: ContinuousClock.Instant) async {
        guard !isBroken else { return }
        // It begins by the real clock, which the processes live by. Cancelled is as good as over.
        try? await Task.sleep(until: start + fault.begins, clock: .continuous)
        guard !Task.isCancelled, !isBroken else { return }
        guard ContinuousClock.now - start + fault.lasts <= plan.calmFrom else {
            say("left out, as the mending before it took too long: \(fault)", since: start)
            return
        }
        await note(.faultBegan(fault: fault.number, fault.kind, sidecar: fault.sidecar))
        let began = say("begins: \(fault)", since: start)
        var failure: (any Error)?
        do {
            try await make(fault.act)
            try await keep(fault)
        } catch is CancellationError {
            say("cut short: #\(fault.number)", since: start)
        } catch {
            failure = error
        }
        do {
            // In a task of its own: it is mended also when this one was cancelled.
            try await Task { try await mend(fault.act) }.value
        } catch {
            failure = failure ?? error
        }
        if let failure {
            // It has not become whole: its end is not noted.
            say("not mended: #\(fault.number): \(failure)", since: start)
            let violation = Violation(.recovery, at: time.now(), "after \(fault.act) all is not whole again: \(failure)")
            state.withLockedValue { state in
                state.isBroken = true
                state.outcome.violations.append(violation)
            }
        } else {
            await note(.faultEnded(fault: fault.number))
        }
        let ended = say("ended: #\(fault.number)", since: start)
        let report = FaultReport(
            number: fault.number, kind: fault.kind, sidecar: fault.sidecar, began: began, ended: ended)
        state.withLockedValue { $0.outcome.faults.append(report) }
    }

    private var isBroken: Bool { state.withLockedValue { $0.isBroken } }

    /// - Returns: when, in seconds from the beginning of the run.
    @discardableResult
    private func say(_ line: String, since start: ContinuousClock.Instant) -> Double {
        let now = ContinuousClock.now - start
        log("\(now.wholeMilliseconds) ms: \(line)")
        return Double(now.wholeMilliseconds) / 1000
    }
}

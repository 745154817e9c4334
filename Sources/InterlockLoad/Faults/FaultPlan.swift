internal import InterlockCore
package import InterlockJudge

/// The faults of a run, with their times and severity, determined by a seed.
///
/// Faults with the same target follow each other; faults with different targets sometimes overlap. No fault lasts into
/// the calm period at the end of the run.
package struct FaultPlan: Hashable, Sendable {
    package var seed: UInt64
    /// The faults in the order in which they begin.
    package var faults: [PlannedFault]
    /// The end of the last fault, counted from the start of the run.
    package var calmStart: Duration

    /// A plan without faults.
    package static let none = FaultPlan(seed: 0, faults: [], calmStart: .zero)

    package init(seed: UInt64, faults: [PlannedFault], calmStart: Duration) {
        self.seed = seed
        self.faults = faults
        self.calmStart = calmStart
    }

    /// Draws a random plan.
    /// - Parameters:
    ///   - seed: the seed; the same seed and settings give the same plan.
    ///   - kinds: the kinds to draw from, each about equally often. Kinds that need a sidecar are skipped if there is
    ///     none.
    ///   - sidecars: the number of sidecars.
    ///   - duration: the duration of the whole run.
    ///   - gap: the average pause between two faults.
    ///   - lease: the TTL of the run's leases. A paused sidecar stays stopped for longer than that.
    ///   - recovery: the length of the calm period at the end of the run.
    package init(
        seed: UInt64, kinds: Set<FaultKind>, sidecars: Int, duration: Duration, gap: Duration = .seconds(6),
        lease: Duration = .seconds(10), recovery: Duration = .seconds(10)
    ) {
        self.init(seed: seed, faults: [], calmStart: max(.zero, duration - recovery))
        var draw = FaultGenerator(seed: seed, kinds: kinds, sidecars: sidecars, lease: lease)
        // The number of consecutive draws that did not fit into the remaining time.
        var rejectedDraws = 0
        while rejectedDraws < FaultKind.injectable.count, let (action, duration) = draw.next() {
            let start = begin(of: action, gap: gap, &draw)
            guard start + duration + Self.repairTime <= calmStart else {
                rejectedDraws += 1
                continue
            }
            rejectedDraws = 0
            faults.append(PlannedFault(number: faults.count, action: action, start: start, duration: duration))
        }
    }

    private func begin(of action: FaultAction, gap: Duration, _ draw: inout FaultGenerator) -> Duration {
        let pause = gap * (0.5 + draw.unit())
        let isOverlapping = draw.unit() < Self.overlapProbability
        let fraction = draw.unit()
        let wanted =
            if isOverlapping, let last = faults.last {
                last.start + last.duration * fraction
            } else {
                (faults.map(\.end).max() ?? .zero) + pause
            }
        let others = faults.filter { $0.action.target == action.target }.map { $0.end + Self.minimumGap }
        return others.reduce(wanted, max)
    }

    /// The fraction of faults that begin while another is active.
    private static let overlapProbability = 0.25
    /// The time reserved to repair a fault before the calm period begins.
    private static let repairTime = Duration.seconds(4)
    /// The minimum gap between two faults with the same target: the first must be repaired before the next begins.
    private static let minimumGap = Duration.seconds(2)
}

extension FaultPlan: CustomStringConvertible {
    /// One line per fault.
    package var description: String {
        let lines = faults.map(\.description) + ["calm from \(calmStart.wholeMilliseconds) ms"]
        return "faults of seed \(seed)\n  " + lines.joined(separator: "\n  ")
    }
}

/// A fault in a plan.
package struct PlannedFault: Hashable, Sendable {
    /// The number of the fault within the run, from 0.
    package var number: Int
    package var action: FaultAction
    /// The start, counted from the start of the run.
    package var start: Duration
    /// The time until the repair begins; the repair itself takes time too. Zero if the fault is instantaneous.
    package var duration: Duration

    package init(number: Int, action: FaultAction, start: Duration, duration: Duration) {
        self.number = number
        self.action = action
        self.start = start
        self.duration = duration
    }

    package var kind: FaultKind { action.kind }
    package var sidecar: Int? { action.sidecar }

    /// The start of the repair, counted from the start of the run.
    package var end: Duration { start + duration }
}

extension PlannedFault: CustomStringConvertible {
    /// The fault in the form `#3 at 12480 ms for 1203 ms: kill of sidecar 2`.
    package var description: String {
        "#\(number) at \(start.wholeMilliseconds) ms for \(duration.wholeMilliseconds) ms: \(action)"
    }
}

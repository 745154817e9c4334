internal import InterlockCore
package import InterlockJudge

/// The faults of a run, with their times and severity. A seed determines them.
///
/// Faults with the same target never overlap; faults with different targets sometimes do. No fault lasts into the calm
/// period at the end of the run.
package struct FaultPlan: Hashable, Sendable {
    package var seed: UInt64
    /// The faults in the order in which they begin.
    package var faults: [PlannedFault]
    /// The start of the calm period, counted from the start of the run. No fault lasts longer.
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
    ///   - seed: the seed. The same seed and settings result in the same plan.
    ///   - kinds: the kinds to draw from, each about equally often. Kinds that need a sidecar are skipped if
    ///     `sidecars` is 0.
    ///   - sidecars: the number of sidecars.
    ///   - duration: the duration of the whole run.
    ///   - gap: the average pause between two faults.
    ///   - lease: the TTL of the run's leases. A paused sidecar stays stopped for longer than this TTL.
    ///   - recovery: the length of the calm period at the end of the run.
    package init(
        seed: UInt64, kinds: Set<FaultKind>, sidecars: Int, duration: Duration, gap: Duration = .seconds(6),
        lease: Duration = .seconds(10), recovery: Duration = .seconds(10)
    ) {
        self.init(seed: seed, faults: [], calmStart: max(.zero, duration - recovery))
        var generator = FaultGenerator(seed: seed, kinds: kinds, sidecars: sidecars, lease: lease)
        // The number of consecutive draws that did not fit into the remaining time.
        var rejectedDraws = 0
        while rejectedDraws < FaultKind.injectable.count, let (action, duration) = generator.next() {
            let start = self.start(of: action, gap: gap, &generator)
            guard start + duration + Self.repairTime <= calmStart else {
                rejectedDraws += 1
                continue
            }
            rejectedDraws = 0
            faults.append(PlannedFault(number: faults.count, action: action, start: start, duration: duration))
        }
    }

    /// Draws the start of the next fault.
    private func start(of action: FaultAction, gap: Duration, _ generator: inout FaultGenerator) -> Duration {
        let pause = gap * (0.5 + generator.unit())
        let isOverlapping = generator.unit() < Self.overlapProbability
        let fraction = generator.unit()
        let preferredStart =
            if isOverlapping, let last = faults.last {
                last.start + last.duration * fraction
            } else {
                (faults.map(\.end).max() ?? .zero) + pause
            }
        let earliestStarts = faults.filter { $0.action.target == action.target }.map { $0.end + Self.minimumGap }
        return earliestStarts.reduce(preferredStart, max)
    }

    /// The fraction of faults that begin while another is active.
    private static let overlapProbability = 0.25
    /// The time reserved to repair a fault before the calm period begins.
    private static let repairTime = Duration.seconds(4)
    /// The minimum gap between two faults with the same target, in which the first is repaired.
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
    /// The start of the fault, counted from the start of the run.
    package var start: Duration
    /// The time until the repair begins, which excludes the time of the repair; zero if the fault is instantaneous.
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
    /// The fault in words, such as `#3 at 12480 ms for 1203 ms: kill of sidecar 2`.
    package var description: String {
        "#\(number) at \(start.wholeMilliseconds) ms for \(duration.wholeMilliseconds) ms: \(action)"
    }
}

internal import InterlockCore
package import InterlockJudge

/// Which faults a run has, when and how hard: decided by a seed alone.
///
/// Faults of one target follow each other; faults of different targets sometimes overlap. The end of the run is calm.
package struct FaultPlan: Hashable, Sendable, Codable {
    package var seed: UInt64
    /// In the order in which they begin.
    package var faults: [PlannedFault]
    /// From here on nothing is broken any more, from the beginning of the run.
    package var calmFrom: Duration

    /// Plans nothing: no fault ever begins.
    package static let none = FaultPlan(seed: 0, faults: [], calmFrom: .zero)

    package init(seed: UInt64, faults: [PlannedFault], calmFrom: Duration) {
        self.seed = seed
        self.faults = faults
        self.calmFrom = calmFrom
    }

    /// - Parameters:
    ///   - seed: the same seed and settings give the same plan.
    ///   - kinds: what may be broken; each about equally often. Those that need a sidecar are left out when there is none.
    ///   - sidecars: how many there are.
    ///   - duration: of the whole run.
    ///   - gap: between a fault and the next, on average.
    ///   - lease: how long a lease of the run lasts: a paused sidecar sleeps longer than that.
    ///   - recovery: how long the end of the run is calm.
    package init(
        seed: UInt64, kinds: Set<FaultKind>, sidecars: Int, duration: Duration, gap: Duration = .seconds(6),
        lease: Duration = .seconds(10), recovery: Duration = .seconds(10)
    ) {
        self.init(seed: seed, faults: [], calmFrom: max(.zero, duration - recovery))
        var draw = FaultDraw(seed: seed, kinds: kinds, sidecars: sidecars, lease: lease)
        /// How many draws in a row did not fit in what is left of the run.
        var misfits = 0
        while misfits < FaultKind.rigged.count, let (act, lasts) = draw.next() {
            let begins = begin(of: act, gap: gap, &draw)
            guard begins + lasts + Self.mending <= calmFrom else {
                misfits += 1
                continue
            }
            misfits = 0
            faults.append(PlannedFault(number: faults.count, act: act, begins: begins, lasts: lasts))
        }
    }

    private func begin(of act: FaultAct, gap: Duration, _ draw: inout FaultDraw) -> Duration {
        let pause = gap * (0.5 + draw.unit())
        let overlaps = draw.unit() < Self.overlaps
        let place = draw.unit()
        let wanted =
            if overlaps, let last = faults.last {
                last.begins + last.lasts * place
            } else {
                (faults.map(\.ends).max() ?? .zero) + pause
            }
        let others = faults.filter { $0.act.target == act.target }.map { $0.ends + Self.shortestGap }
        return others.reduce(wanted, max)
    }

    /// What share of the faults begins while another lasts.
    private static let overlaps = 0.25
    /// How long it may take to repair a fault at the end of the run.
    private static let mending = Duration.seconds(4)
    /// Between two faults of the same target: the first has to be repaired before the next begins.
    private static let shortestGap = Duration.seconds(2)
}

extension FaultPlan: CustomStringConvertible {
    /// A line for each fault.
    package var description: String {
        let lines = faults.map(\.description) + ["calm from \(calmFrom.wholeMilliseconds) ms"]
        return "faults of seed \(seed)\n  " + lines.joined(separator: "\n  ")
    }
}

/// A fault that a plan foresees.
package struct PlannedFault: Hashable, Sendable, Codable {
    /// Its number within the run, from 0.
    package var number: Int
    package var act: FaultAct
    /// When, from the beginning of the run.
    package var begins: Duration
    /// How long until it is repaired; that may take a while itself. Zero: it is over once it has happened.
    package var lasts: Duration

    package init(number: Int, act: FaultAct, begins: Duration, lasts: Duration) {
        self.number = number
        self.act = act
        self.begins = begins
        self.lasts = lasts
    }

    package var kind: FaultKind { act.kind }
    package var sidecar: Int? { act.sidecar }

    /// When it is to be repaired, from the beginning of the run.
    package var ends: Duration { begins + lasts }
}

extension PlannedFault: CustomStringConvertible {
    /// `#3 at 12480 ms for 1203 ms: kill of sidecar 2`.
    package var description: String {
        "#\(number) at \(begins.wholeMilliseconds) ms for \(lasts.wholeMilliseconds) ms: \(act)"
    }
}

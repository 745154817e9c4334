public import InterlockJudge
internal import InterlockCore

/// A fault that a plan foresees.
public struct PlannedFault: Hashable, Sendable, Codable {
    /// Its number within the run, from 0.
    public var number: Int
    public var act: FaultAct
    /// When, from the beginning of the run.
    public var begins: Duration
    /// How long until it is mended; that may take a while itself. Zero: it is over once it has happened.
    public var lasts: Duration

    public init(number: Int, act: FaultAct, begins: Duration, lasts: Duration) {
        self.number = number
        self.act = act
        self.begins = begins
        self.lasts = lasts
    }

    public var kind: FaultKind { act.kind }
    public var sidecar: Int? { act.sidecar }

    /// When it is to be mended, from the beginning of the run.
    public var ends: Duration { begins + lasts }
}

extension PlannedFault: CustomStringConvertible {
    /// `#3 at 12480 ms for 1203 ms: kill of sidecar 2`.
    public var description: String {
        "#\(number) at \(begins.wholeMilliseconds) ms for \(lasts.wholeMilliseconds) ms: \(act)"
    }
}

package import InterlockJudge

/// A fault that was injected during a run.
package struct FaultReport: Codable, Hashable, Sendable {
    /// The number of the fault in the run.
    package var number: Int
    package var kind: FaultKind
    /// The affected sidecar; `nil` if the fault affected Redis or all sidecars.
    package var sidecar: Int?
    /// The start of the fault, in seconds since the start of the run.
    package var beganSeconds: Double
    /// The end of the fault, in seconds since the start of the run.
    package var endedSeconds: Double
    /// The time in seconds from the end of the fault until every sidecar served again; `nil` if another fault began
    /// before that, or a sidecar never served again.
    package var recoveredAfterSeconds: Double?

    package init(
        number: Int, kind: FaultKind, sidecar: Int?, beganSeconds: Double, endedSeconds: Double,
        recoveredAfterSeconds: Double? = nil
    ) {
        self.number = number
        self.kind = kind
        self.sidecar = sidecar
        self.beganSeconds = beganSeconds
        self.endedSeconds = endedSeconds
        self.recoveredAfterSeconds = recoveredAfterSeconds
    }
}

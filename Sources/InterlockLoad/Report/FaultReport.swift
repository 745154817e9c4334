package import InterlockJudge

/// A fault that was injected during a run.
package struct FaultReport: Codable, Hashable, Sendable {
    /// The number of the fault in the run.
    package var number: Int
    package var kind: FaultKind
    /// The affected sidecar; `nil` if the fault affected Redis or all sidecars.
    package var sidecar: Int?
    package var began: Double
    package var ended: Double
    /// The seconds from the end of the fault until every sidecar served again; `nil` if another fault began earlier or
    /// they never did.
    package var recoveredAfter: Double?

    package init(
        number: Int, kind: FaultKind, sidecar: Int?, began: Double, ended: Double, recoveredAfter: Double? = nil
    ) {
        self.number = number
        self.kind = kind
        self.sidecar = sidecar
        self.began = began
        self.ended = ended
        self.recoveredAfter = recoveredAfter
    }
}

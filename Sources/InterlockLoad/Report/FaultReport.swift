package import InterlockJudge

/// A fault that was made.
package struct FaultReport: Codable, Hashable, Sendable {
    /// Within the run.
    package var number: Int
    package var kind: FaultKind
    /// `nil`: it concerned Redis, or all.
    package var sidecar: Int?
    package var began: Double
    package var ended: Double
    /// After how many seconds from its end every sidecar served again; `nil`: another fault came before that, or never.
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

package import InterlockJudge

/// What became of one kind of operation.
package struct OperationReport: Codable, Hashable, Sendable {
    package var kind: OperationKind
    /// How many were due.
    package var offered: Int
    package var done: Int
    /// By the reason's name.
    package var refused: [String: Int]
    /// By the error's first word.
    package var failed: [String: Int]
    /// Without an answer.
    package var unknown: Int
    /// Due, and never sent: the harness had too many of them already.
    package var unsent: Int
    /// Of all that were answered; `nil`: none was.
    package var latency: LatencyReport?

    package init(
        kind: OperationKind, offered: Int = 0, done: Int = 0, refused: [String: Int] = [:], failed: [String: Int] = [:],
        unknown: Int = 0, unsent: Int = 0, latency: LatencyReport? = nil
    ) {
        self.kind = kind
        self.offered = offered
        self.done = done
        self.refused = refused
        self.failed = failed
        self.unknown = unknown
        self.unsent = unsent
        self.latency = latency
    }
}

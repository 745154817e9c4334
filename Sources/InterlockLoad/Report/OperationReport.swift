package import InterlockJudge

/// The results of one kind of operation.
package struct OperationReport: Codable, Hashable, Sendable {
    package var kind: OperationKind
    /// The number of operations that were due.
    package var offered: Int
    package var done: Int
    /// The number of refusals by reason.
    package var refused: [String: Int]
    /// The number of errors by code.
    package var failed: [String: Int]
    /// The number of operations without an answer.
    package var unknown: Int
    /// The number of due operations that were never sent because the backlog was full or the run ended.
    package var unsent: Int
    /// The latencies of answered operations; `nil` if no operation was answered.
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

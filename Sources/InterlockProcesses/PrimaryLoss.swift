/// The ways in which a primary can be lost.
package enum PrimaryLoss: String, Hashable, Sendable, Codable, CaseIterable {
    /// The primary receives SIGKILL.
    case killed
    /// The primary receives SIGSTOP.
    case stopped
    /// Another server takes over although clients still reach the primary: Sentinels get no answer from it, or, in a
    /// cluster, its replica takes over unilaterally.
    case cutOff = "cut off"
}

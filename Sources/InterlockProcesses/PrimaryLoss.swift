/// The ways in which a primary can be lost.
package enum PrimaryLoss: String, Hashable, Sendable, Codable, CaseIterable {
    /// The primary receives SIGKILL.
    case killed
    /// The primary receives SIGSTOP.
    case stopped
    /// Another server takes over, although clients still reach the primary. Either Sentinels get no reply from the
    /// primary, or its replica in a cluster takes over unilaterally.
    case cutOff = "cut off"
}

/// How a primary of Redis is lost.
package enum PrimaryLoss: String, Hashable, Sendable, Codable, CaseIterable {
    /// SIGKILL.
    case killed
    /// SIGSTOP.
    case stopped
    /// Another takes its place although every client reaches it: because no Sentinel gets an answer from it, or, in a cluster, because
    /// its replica does not ask.
    case cutOff = "cut off"
}

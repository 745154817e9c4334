package import InterlockCore

/// A lease that a failover took from its holder.
package struct LostLease: Codable, Hashable, Sendable {
    /// The time when the holder learned of the loss.
    package var at: Instant
    package var lock: Int
    package var lease: LeaseID
    package var client: Int
    /// The number of the failover in the run.
    package var fault: Int
    /// The time from the start of the failover to the grant's answer, in milliseconds; negative if the answer came
    /// first.
    package var grantedAfterMilliseconds: Double
    /// The remaining validity in milliseconds when the holder learned of the loss.
    package var remainingMilliseconds: Double

    enum CodingKeys: String, CodingKey {
        case at, lock, lease, client, fault
        case grantedAfterMilliseconds = "granted_after_ms"
        case remainingMilliseconds = "left_ms"
    }
}

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
    /// The time of the grant's answer in milliseconds since the failover began; negative if it came earlier.
    package var grantedAfter: Double
    /// The remaining validity in milliseconds when the holder learned of the loss.
    package var remainingValidity: Double

    enum CodingKeys: String, CodingKey {
        case at, lock, lease, client, fault
        case grantedAfter = "granted_after_ms"
        case remainingValidity = "left_ms"
    }
}

package import InterlockCore

/// A lease that a failover took from its holder.
package struct LostLease: Codable, Hashable, Sendable {
    /// When its holder was told.
    package var at: Instant
    package var lock: Int
    package var lease: LeaseID
    package var client: Int
    /// The failover's number in the run.
    package var fault: Int
    /// How many ms after the failover began its holder was told that it has the lease; negative: before.
    package var grantedAfter: Double
    /// How many ms it had left when its holder was told that it is lost.
    package var left: Double

    enum CodingKeys: String, CodingKey {
        case at, lock, lease, client, fault
        case grantedAfter = "granted_after_ms"
        case left = "left_ms"
    }
}

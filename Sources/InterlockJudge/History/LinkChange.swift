/// A change of the link between a lease and its client's connection.
package enum LinkChange: String, Hashable, Sendable, Codable {
    case began
    /// The client closed the connection and no longer relies on the lease.
    case left
    /// The connection was lost, or the client learned that the lease is lost.
    case lost
}

/// How a lease coexists with other leases of its lock.
package enum LeaseMode: Hashable, Sendable, Codable {
    case exclusive
    /// A reader.
    case shared
    /// One of this many places of a semaphore.
    case permits(Int)
}

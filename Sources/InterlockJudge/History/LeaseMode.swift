/// The mode of a lease: how it coexists with other leases of its lock.
package enum LeaseMode: Hashable, Sendable, Codable {
    case exclusive
    /// A reader.
    case shared
    /// One of this many slots of a semaphore.
    case permits(Int)
}

internal import InterlockCore

/// What a request may ask for, at most.
enum HTTPBounds {
    /// The largest body, in bytes.
    static let body = 64 * 1024
    /// Times in milliseconds.
    static let milliseconds: ClosedRange<Int64> = 0...RESPOptions.longestMilliseconds
    /// Leases in milliseconds; the coordinator's own bounds are closer.
    static let ttl: ClosedRange<Int64> = 1...RESPOptions.longestMilliseconds
    /// The places of a semaphore.
    static let permits: ClosedRange<Int64> = Int64(LockMode.places.lowerBound)...Int64(LockMode.places.upperBound)
    /// HTTP statuses that an outcome may report.
    static let statuses: ClosedRange<Int64> = 100...599
}

internal import InterlockCore

/// The bounds of the values in a request.
enum HTTPLimits {
    /// The largest body, in bytes.
    static let body = 64 * 1024
    /// Times, in milliseconds.
    static let milliseconds: ClosedRange<Int64> = 0...RequestLimits.maximumMilliseconds
    /// Durations of leases, in milliseconds. The coordinator's own limits are stricter.
    static let ttl: ClosedRange<Int64> = 1...RequestLimits.maximumMilliseconds
    /// The number of a semaphore's permits.
    static let permits: ClosedRange<Int64> = Int64(LockMode.slots.lowerBound)...Int64(LockMode.slots.upperBound)
    /// HTTP statuses that an outcome may report.
    static let statuses: ClosedRange<Int64> = 100...599
}

internal import InterlockCore

/// The limits on the body of a request, and on the values in it.
enum HTTPLimits {
    /// The maximum length of a body, in bytes.
    static let bodyBytes = 64 * 1024
    /// The valid durations, in milliseconds.
    static let millisecondsRange: ClosedRange<Int64> = 0...RequestLimits.maximumMilliseconds
    /// The valid TTLs, in milliseconds. The coordinator's own limits are stricter.
    static let ttlMillisecondsRange: ClosedRange<Int64> = 1...RequestLimits.maximumMilliseconds
    /// The valid numbers of a semaphore's slots.
    static let permitCountRange: ClosedRange<Int64> = Int64(LockMode.slots.lowerBound)...Int64(LockMode.slots.upperBound)
    /// The HTTP statuses that an outcome may report.
    static let statusRange: ClosedRange<Int64> = 100...599
}

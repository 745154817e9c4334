internal import InterlockCore

/// The result of a renewal.
package enum RenewResult: Sendable {
    /// How long the lease can be relied on, in milliseconds.
    case renewed(validMilliseconds: Int64)
    /// The token does not hold the lock.
    case lost
    case failed(InterlockError)
}

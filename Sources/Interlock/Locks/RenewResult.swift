internal import InterlockCore

/// The result of a renewal.
package enum RenewResult: Sendable {
    /// The lease was renewed. Its holder can rely on it for this number of milliseconds.
    case renewed(validMilliseconds: Int64)
    /// The token does not hold the lock.
    case lost
    case failed(InterlockError)
}

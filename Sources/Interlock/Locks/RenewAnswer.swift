internal import InterlockCore

/// What became of a renewal.
package enum RenewAnswer: Sendable {
    /// For so many milliseconds it can be relied on.
    case renewed(validMilliseconds: Int64)
    /// The lock is not held by that token.
    case lost
    case failed(InterlockError)
}

internal import InterlockCore

/// The result of a release or a break.
package enum ReleaseResult: Sendable {
    case released
    /// The token does not hold the lock, or there is no lease to break.
    case lost
    case failed(InterlockError)

    /// Whether the lease was ended.
    /// - Throws: `InterlockError` if the call failed.
    var isReleased: Bool {
        get throws(InterlockError) {
            switch self {
            case .released: true
            case .lost: false
            case .failed(let error): throw error
            }
        }
    }
}

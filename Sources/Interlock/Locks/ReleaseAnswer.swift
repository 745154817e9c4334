internal import InterlockCore

/// What became of a release, or of a break.
package enum ReleaseAnswer: Sendable {
    case released
    /// The lock is not held by that token; of a break: there is no lease.
    case lost
    case failed(InterlockError)

    /// - Throws: `InterlockError` when the call failed.
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

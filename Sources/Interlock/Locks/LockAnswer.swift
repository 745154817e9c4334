internal import InterlockCore

/// The answer to a lock request.
package enum LockAnswer: Sendable {
    case granted(Lease)
    /// Another holder has the lock, even after the wait.
    case held
    case failed(InterlockError)
}

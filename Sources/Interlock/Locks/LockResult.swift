internal import InterlockCore

/// The result of a lock request.
package enum LockResult: Sendable {
    case granted(Lease)
    /// Another holder has the lock, even after the wait.
    case held
    case failed(InterlockError)
}

internal import InterlockCore

/// The answer to a lock request.
package enum LockAnswer: Sendable {
    case granted(Lease)
    /// Another has it, also at the end of the wait.
    case held
    case failed(InterlockError)
}

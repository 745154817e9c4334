internal import InterlockCore

/// The result of a request for several locks.
package enum JointLockResult: Sendable {
    case granted([Lease])
    /// Another holder has one of the locks, even after the wait. No lock was acquired.
    case held
    case failed(InterlockError)
}

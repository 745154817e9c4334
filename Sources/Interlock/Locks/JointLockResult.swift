internal import InterlockCore

/// The answer to a request for several locks.
package enum JointLockResult: Sendable {
    case granted([Lease])
    /// Another holder has one of the locks, even after the wait; none is acquired.
    case held
    case failed(InterlockError)
}

internal import InterlockCore

/// The answer to a request for several locks.
package enum JointLockAnswer: Sendable {
    case granted([Lease])
    /// Another has one of them, also at the end of the wait; none is taken.
    case held
    case failed(InterlockError)
}

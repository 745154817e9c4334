internal import InterlockCore

/// The end of a followed lease, as reported to one follower.
package struct LeaseEnd: Sendable {
    package var follower: LeaseFollower
    package var name: String
    package var token: String
    /// The reason for the loss; `nil` if the holder released the lease.
    package var loss: LeaseLoss?
}

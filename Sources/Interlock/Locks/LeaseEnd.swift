internal import InterlockCore

/// A followed lease ended.
package struct LeaseEnd: Sendable {
    package var follower: LeaseFollower
    package var name: String
    package var token: String
    /// `nil`: its holder released it.
    package var loss: LeaseLoss?
}

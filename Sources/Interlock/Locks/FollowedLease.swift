public import InterlockCore

/// A lease that a coordinator follows: it reports the loss of the lease, and renews the lease if requested.
///
/// Dropping this value and its stream stops following, after which a renewed lease expires. Keep the value while
/// you need the lock.
public struct FollowedLease: Sendable {
    package let follower: LeaseFollower
    /// The loss of the lease, reported at most once and no later than its deadline. The stream ends without a loss if
    /// the lease is released or no longer followed, or if the task that reads it is cancelled.
    public var losses: AsyncStream<LeaseLoss>
    /// The coordinator stops following the lease when this object is deallocated.
    let interest: LeaseInterest
    /// Ends the stream.
    let end: @Sendable () -> Void
}

package import InterlockCore

/// The assignment of a bucket to a data plane.
package enum QuotaAction: Sendable, Hashable {
    /// The data plane passes the requests that a token bucket of this size grants.
    case quota(Int64, of: QuotaRate)
    case allow
    case deny
    /// The data plane stops reporting the bucket.
    case abandon

    /// An action with its bucket.
    package typealias Assignment = (bucket: [DescriptorEntry], action: QuotaAction)
}

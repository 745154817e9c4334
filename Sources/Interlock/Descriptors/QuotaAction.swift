package import InterlockCore

/// What a data plane is told about one of its buckets.
package enum QuotaAction: Sendable, Hashable {
    /// It may let pass what a token bucket of this share does.
    case share(Int64, of: QuotaRate)
    case allow
    case deny
    /// It need not report it any more.
    case abandon

    /// With the bucket that it is about.
    package typealias Of = (bucket: [DescriptorEntry], action: QuotaAction)
}

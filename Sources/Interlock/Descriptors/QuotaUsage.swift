package import InterlockCore

/// What a data plane tells of one of its buckets: how many requests it allowed and denied since it told of it before.
package struct QuotaUsage: Sendable {
    package var bucket: [DescriptorEntry]
    package var requests: Int64

    package init(bucket: [DescriptorEntry], requests: Int64) {
        self.bucket = bucket
        self.requests = requests
    }
}

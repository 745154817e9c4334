package import InterlockCore

/// A data plane's report about one bucket: the requests that it allowed and denied since its last report.
package struct QuotaUsage: Sendable {
    package var bucket: [DescriptorEntry]
    package var requests: Int64

    package init(bucket: [DescriptorEntry], requests: Int64) {
        self.bucket = bucket
        self.requests = requests
    }
}

package import InterlockCore

/// A data plane's report about one bucket: the requests that it allowed and denied since its last report.
package struct QuotaUsage: Sendable {
    package var bucket: [DescriptorEntry]
    package var requestCount: Int64

    package init(bucket: [DescriptorEntry], requestCount: Int64) {
        self.bucket = bucket
        self.requestCount = requestCount
    }
}

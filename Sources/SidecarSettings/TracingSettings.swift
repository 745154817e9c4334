/// `tracing`: the sampling of calls, and the collector of their spans.
package struct TracingSettings: Sendable, Equatable {
    /// A header field of each request to the collector, which may contain an API key.
    package struct Header: Sendable, Equatable, CustomStringConvertible {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }

        /// The name only, because the value may be a secret.
        package var description: String { name }
    }

    /// `tracing.endpoint`: a collector that accepts OTLP over HTTP. A URL without a path means `/v1/traces`.
    package var endpoint: String
    /// `tracing.ca`: a PEM file of the authorities that may sign the collector's certificate; `nil` for the system's.
    package var certificateAuthority: String?
    /// The digest of that file when it was read.
    package var certificateAuthorityDigest: [UInt8]?
    /// `tracing.headers`: additional header fields; none by default.
    package var headers: [Header] = []
    /// `tracing.sample`: the fraction of calls to trace if the caller does not decide; 1% by default.
    package var samplingRate = 0.01
    /// `tracing.follow_parents`: whether a call is traced if its caller is; true by default.
    package var followsParents = true

    package init(endpoint: String) {
        self.endpoint = endpoint
    }
}

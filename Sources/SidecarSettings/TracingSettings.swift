/// `tracing`: which calls are traced, and where their spans go.
package struct TracingSettings: Sendable, Equatable {
    /// A header field of each request to the collector. It may hold an API key.
    package struct Header: Sendable, Equatable, CustomStringConvertible {
        package var name: String
        package var value: String

        package init(name: String, value: String) {
            self.name = name
            self.value = value
        }

        /// The value is never shown.
        package var description: String { name }
    }

    /// `tracing.endpoint`: a collector that takes OTLP over HTTP; without a path `/v1/traces` is meant.
    package var endpoint: String
    /// `tracing.ca`: a PEM file of the authorities that may have signed the collector's certificate; `nil` for the
    /// system's.
    package var certificateAuthority: String?
    /// A digest of that file as it was read.
    package var certificateAuthorityDigest: [UInt8]?
    /// `tracing.headers`: none by default.
    package var headers: [Header] = []
    /// `tracing.sample`: the share of the calls that is traced whose callers say nothing; 1 % by default.
    package var share = 0.01
    /// `tracing.follow_parents`: a call is traced when its caller is; true by default.
    package var followsParents = true

    package init(endpoint: String) {
        self.endpoint = endpoint
    }
}

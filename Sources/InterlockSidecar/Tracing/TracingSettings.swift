/// `tracing`: which calls are traced, and where their spans go.
package struct TracingSettings: Sendable, Equatable {
    /// `tracing.endpoint`: a collector that takes OTLP over HTTP; without a path `/v1/traces` is meant.
    package var endpoint: String
    /// `tracing.sample`: the share of the calls that is traced whose callers say nothing; 1 % by default.
    package var share = 0.01
    /// `tracing.follow_parents`: a call is traced when its caller is; true by default.
    package var followsParents = true

    package init(endpoint: String) {
        self.endpoint = endpoint
    }
}

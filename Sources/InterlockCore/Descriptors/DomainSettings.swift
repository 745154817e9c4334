/// The domains of Envoy's rate limit service, and the time limit of its answers.
package struct DomainSettings: Hashable, Sendable {
    package static let timeoutRange: ClosedRange<Duration> = .milliseconds(1) ... .seconds(60)

    package var definitions: [RateLimitDomain] = []
    /// The time limit for a reply of Redis, after which a domain acts as if Redis were unreachable. Envoy waits 20 ms
    /// by default.
    package var timeout = Duration.milliseconds(15)

    package init() {}
}

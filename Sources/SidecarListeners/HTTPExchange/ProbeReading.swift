package import InterlockCore

/// The latest findings of the outage monitor about a service.
package struct ProbeReading: Hashable, Sendable {
    /// The sidecar or sidecars that probe the service.
    package enum Prober: String, CaseIterable, Hashable, Sendable {
        /// This sidecar, elected by the fleet.
        case elected
        /// Another sidecar of the fleet.
        case another
        /// Every sidecar, including this one.
        case all
        /// This sidecar on its own behalf, because Redis is down and no prober can be elected.
        case alone
        /// No prober is elected yet.
        case undecided
    }

    /// One probe of this sidecar.
    package struct Probe: Hashable, Sendable {
        package var finding: ProbeFinding
        /// The end of the probe, as Unix time in milliseconds by this host's clock.
        package var atMilliseconds: Int64
        package var duration: Duration

        package init(finding: ProbeFinding, atMilliseconds: Int64, duration: Duration) {
            self.finding = finding
            self.atMilliseconds = atMilliseconds
            self.duration = duration
        }
    }

    package var service: String
    package var prober: Prober
    /// The last probe that this sidecar made; `nil` if it has made none.
    package var lastProbe: Probe?
    /// The number of consecutive bad probes, up to the last one.
    package var failureCount: Int
    /// The number of consecutive good probes, up to the last one.
    package var successCount: Int

    package init(
        service: String, prober: Prober = .undecided, lastProbe: Probe? = nil, failureCount: Int = 0,
        successCount: Int = 0
    ) {
        self.service = service
        self.prober = prober
        self.lastProbe = lastProbe
        self.failureCount = failureCount
        self.successCount = successCount
    }
}

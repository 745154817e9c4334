package import InterlockCore

/// What the outage monitor knows of a service.
package struct ProbeReading: Hashable, Sendable {
    /// Who makes the probes.
    package enum Prober: String, CaseIterable, Hashable, Sendable {
        /// This sidecar, elected by the fleet.
        case elected
        /// Another sidecar of the fleet.
        case another
        /// Every sidecar, this one among them.
        case all
        /// This sidecar for itself, because Redis is away and nobody can be elected.
        case alone
        /// It is being decided.
        case undecided
    }

    /// One probe of this sidecar.
    package struct Probe: Hashable, Sendable {
        package var finding: ProbeFinding
        /// When it ended, in milliseconds of the Unix epoch by this host's clock.
        package var atMilliseconds: Int64
        /// How long it took.
        package var duration: Duration

        package init(finding: ProbeFinding, atMilliseconds: Int64, duration: Duration) {
            self.finding = finding
            self.atMilliseconds = atMilliseconds
            self.duration = duration
        }
    }

    package var service: String
    package var prober: Prober
    /// The last probe that this sidecar made; `nil`: none yet.
    package var last: Probe?
    /// Bad probes in a row, up to the last.
    package var failures: Int
    /// Good probes in a row, up to the last.
    package var successes: Int

    package init(
        service: String, prober: Prober = .undecided, last: Probe? = nil, failures: Int = 0, successes: Int = 0
    ) {
        self.service = service
        self.prober = prober
        self.last = last
        self.failures = failures
        self.successes = successes
    }
}

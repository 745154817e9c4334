public import FoundationEssentials

/// A sidecar's view of a service's probes. Its results are those of this sidecar's own probes.
public struct ProbeStatus: Hashable, Sendable {
    /// The prober: `elected` (this sidecar), `another`, `all`, `alone` (this sidecar, while Redis is unreachable), or
    /// `undecided`.
    public var prober: String
    /// The finding of the last probe: `good`, `bad` or `unjudged`; `nil` if the sidecar has made no probe.
    public var finding: String?
    /// The reason that the last probe was not good; `nil` if it was good or no probe was made.
    public var reason: String?
    /// The duration of the last probe.
    public var duration: Duration?
    /// The number of bad probes in a row, up to the last.
    public var failures: Int64
    /// The number of good probes in a row, up to the last.
    public var successes: Int64
    /// The end of the last probe, as Unix time in milliseconds; see `at`.
    package var atMilliseconds: Int64?

    package init(
        prober: String, finding: String?, reason: String?, duration: Duration?, failures: Int64, successes: Int64,
        atMilliseconds: Int64?
    ) {
        self.prober = prober
        self.finding = finding
        self.reason = reason
        self.duration = duration
        self.failures = failures
        self.successes = successes
        self.atMilliseconds = atMilliseconds
    }

    /// The end of the last probe, by the clock of the sidecar's host.
    public var at: Date? { atMilliseconds.map { Date(epochMilliseconds: $0) } }
}

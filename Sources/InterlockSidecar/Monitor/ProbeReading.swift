internal import CoreMetrics
package import InterlockCore
internal import NIOConcurrencyHelpers
internal import NIOCore

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

/// What is known of each probed service, at most one reading each.
package final class ProbeReadings: Sendable {
    /// What is known of a service's probes; `nil`: it is not probed.
    package typealias Lookup = @Sendable (_ service: String) -> ProbeReading?

    private let readings = NIOLockedValueBox<[String: ProbeReading]>([:])

    /// By name.
    var all: [ProbeReading] { readings.withLockedValue { $0.values.sorted { $0.service < $1.service } } }

    subscript(service: String) -> ProbeReading? {
        readings.withLockedValue { $0[service] }
    }

    /// Begins or goes on with a service's reading.
    func update(_ service: String, _ change: (inout ProbeReading) -> Void) {
        readings.withLockedValue { change(&$0[service, default: ProbeReading(service: service)]) }
    }

    func remove(_ service: String) {
        _ = readings.withLockedValue { $0.removeValue(forKey: service) }
    }
}

/// What is counted of one service's probes.
struct ProbeMetrics: Sendable {
    private let good: Counter
    private let bad: Counter
    private let unjudged: Counter
    private let time: Timer

    init(service: String) {
        func counter(_ result: String) -> Counter {
            Counter(label: "interlock_probes_total", dimensions: [("service", service), ("result", result)])
        }
        good = counter("good")
        bad = counter("bad")
        unjudged = counter("unjudged")
        time = Timer(label: "interlock_probe_seconds", dimensions: [("service", service)])
    }

    /// The service is not probed any more.
    func destroy() {
        for counter in [good, bad, unjudged] { counter.destroy() }
        time.destroy()
    }

    func record(_ finding: ProbeFinding, duration: Duration) {
        switch finding {
        case .good: good.increment()
        case .bad: bad.increment()
        case .unjudged: unjudged.increment()
        }
        time.recordNanoseconds(TimeAmount(duration).nanoseconds)
    }
}

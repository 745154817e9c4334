internal import CoreMetrics
internal import InterlockCore
internal import NIOCore

/// The metrics of a service's probes.
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

    /// Removes the metrics of a service that is no longer probed.
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

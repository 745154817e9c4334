internal import CoreMetrics

/// Counters of the RESP API's error replies, by their first word. Confined to the coordinator's event loop.
final class RESPErrorCounters {
    private var counters: [String: Counter] = [:]

    func count(_ code: String) {
        if let known = counters[code] { return known.increment() }
        let counter = Counter(label: "interlock_resp_errors_total", dimensions: [("code", code)])
        counters[code] = counter
        counter.increment()
    }
}

internal import CoreMetrics

/// Counts the RESP API's error replies by code. Confined to the coordinator's event loop.
final class RESPErrorCounters {
    private var counters: [String: Counter] = [:]

    func count(_ code: String) {
        if let counter = counters[code] { return counter.increment() }
        let counter = Counter(label: "interlock_resp_errors_total", dimensions: [("code", code)])
        counters[code] = counter
        counter.increment()
    }
}

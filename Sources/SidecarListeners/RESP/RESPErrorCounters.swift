internal import CoreMetrics

/// Counters of the RESP API's error replies, by their first word. Confined to the coordinator's event loop.
final class RESPErrorCounters {
    private var counters: [String: Counter] = [:]

    func count(_ word: String) {
        if let known = counters[word] { return known.increment() }
        let counter = Counter(label: "interlock_resp_errors_total", dimensions: [("code", word)])
        counters[word] = counter
        counter.increment()
    }
}

internal import InterlockCore

/// The leases that were granted through this sidecar, for its gauges and for labels that a token does not show.
/// Bounded: past its capacity leases are granted and not listed here.
struct LeaseTable {
    private struct Entry {
        var token: String
        var deadline: Instant
        /// Only of owners who chose their token: others' tokens begin with it.
        var label: String?
    }

    private static let capacity = 100_000

    private var entries: [String: Entry] = [:]
    private var nextSweep = Instant(nanoseconds: .min)

    mutating func granted(_ lease: Lease, label: String?, now: Instant) {
        if entries.count >= Self.capacity, nextSweep <= now {
            sweep(now: now)
            nextSweep = now.advanced(byMilliseconds: 1000)
        }
        guard entries.count < Self.capacity || entries[lease.name] != nil else { return }
        let deadline = now.advanced(byMilliseconds: lease.validMilliseconds)
        entries[lease.name] = Entry(token: lease.token, deadline: deadline, label: label)
    }

    mutating func renewed(_ name: String, token: String, deadline: Instant) {
        guard entries[name]?.token == token else { return }
        entries[name]?.deadline = deadline
    }

    mutating func ended(_ name: String, token: String) {
        guard entries[name]?.token == token else { return }
        entries[name] = nil
    }

    mutating func broken(_ name: String) {
        entries[name] = nil
    }

    func label(of name: String, token: String) -> String? {
        guard let entry = entries[name], entry.token == token else { return nil }
        return entry.label
    }

    /// How many are still valid. O(n), for the gauge.
    mutating func count(now: Instant) -> Int {
        sweep(now: now)
        return entries.count
    }

    private mutating func sweep(now: Instant) {
        entries = entries.filter { $0.value.deadline > now }
    }
}

internal import DequeModule
internal import InterlockCore

/// The leases that were granted through this sidecar, for its gauges and for labels that a token does not show.
/// Bounded: past its capacity leases are granted and not listed here. It keeps the history of grants as well.
struct LeaseTable {
    /// Name and token, hashed with a key of this process: two that collide would share an entry.
    private struct Key: Hashable {
        var hash: Int

        init(name: String, token: String) {
            var hasher = Hasher()
            hasher.combine(ExactText(name))
            hasher.combine(ExactText(token))
            hash = hasher.finalize()
        }
    }

    private struct Entry {
        var deadline: Instant
        var fence: Int64
        /// Only of owners who chose their token: others' tokens begin with it.
        var label: String?
        let grant: GrantHistory.ID
    }

    private static let capacity = 20_000

    private(set) var history = GrantHistory()

    private var entries: [Key: Entry] = [:]
    /// In order of grant: what has lapsed is dropped from the front, a few at each grant.
    private var order: Deque<Key> = []

    /// - Parameter startedAt: when its holder asked.
    mutating func granted(_ lease: Lease, to request: LockRequest, startedAt: Instant, now: Instant) {
        let label = request.owner == nil ? nil : request.label
        for _ in 0..<2 { dropLapsed(now: now) }
        let key = Key(name: lease.name, token: lease.token)
        let known = entries[key]
        if let known, known.fence == lease.fence {
            // An owner who asks again need not say its label again, and keeps what it was promised.
            let deadline = max(known.deadline, lease.deadline)
            entries[key]?.deadline = deadline
            if let label { entries[key]?.label = label }
            return history.promised(known.grant, until: deadline)
        }
        // Another grant to the same owner: the one before is over.
        if let known { history.ended(known.grant, .lost, at: now) }
        let grant = history.granted(
            lease, mode: request.mode, label: label ?? known?.label,
            waitedNanoseconds: now.nanoseconds - startedAt.nanoseconds, now: now)
        let isListed = known != nil || (entries.count < Self.capacity && order.count < 2 * Self.capacity)
        guard isListed else { return }
        entries[key] = Entry(deadline: lease.deadline, fence: lease.fence, label: label ?? known?.label, grant: grant)
        if known == nil { order.append(key) }
    }

    mutating func renewed(_ name: String, token: String, deadline: Instant) {
        let key = Key(name: name, token: token)
        guard let entry = entries[key] else { return }
        entries[key]?.deadline = deadline
        history.promised(entry.grant, until: deadline)
    }

    mutating func ended(_ name: String, token: String, _ how: GrantEnd, now: Instant) {
        guard let entry = entries.removeValue(forKey: Key(name: name, token: token)) else { return }
        history.ended(entry.grant, how, at: now)
    }

    /// The lock was taken from all who had it at `instant`.
    mutating func broken(_ name: String, at instant: Instant) { history.broken(name, at: instant) }

    /// Its holder asks for a shorter lease.
    mutating func shortened(_ name: String, token: String, to deadline: Instant) {
        let key = Key(name: name, token: token)
        guard let known = entries[key], known.deadline > deadline else { return }
        entries[key]?.deadline = deadline
        history.promised(known.grant, until: deadline)
    }

    /// Until when its holder was told that it may rely on it; `nil`: not known here.
    func deadline(of name: String, token: String) -> Instant? {
        entries[Key(name: name, token: token)]?.deadline
    }

    func label(of name: String, token: String) -> String? {
        entries[Key(name: name, token: token)]?.label
    }

    /// How many are still valid. O(n), for the gauge.
    mutating func count(now: Instant) -> Int {
        entries = entries.filter { $0.value.deadline > now }
        order = Deque(order.filter { entries[$0] != nil })
        return entries.count
    }

    private mutating func dropLapsed(now: Instant) {
        guard let oldest = order.first else { return }
        if let entry = entries[oldest] {
            guard entry.deadline <= now else {
                // A long lease does not keep the shorter ones behind it on the list.
                if order.count >= Self.capacity { order.append(order.removeFirst()) }
                return
            }
            entries[oldest] = nil
        }
        order.removeFirst()
    }
}

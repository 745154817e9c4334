internal import InterlockCore

/// The last grants of this sidecar, in its memory alone: what locks have been through, for whoever asks. The newest take the place of the
/// oldest.
struct GrantHistory {
    /// Names a grant for as long as it is remembered.
    struct ID: Comparable {
        fileprivate let number: Int

        static func < (one: ID, other: ID) -> Bool { one.number < other.number }
    }

    private struct Entry {
        let number: Int
        let name: String
        /// Shows the label, unless its owner chose it: then `label` is what to show.
        let token: String
        let label: String?
        let mode: LockMode
        let fence: Int64
        let grantedAt: Instant
        let waitedNanoseconds: Int64
        var deadline: Instant
        var end: (at: Instant, how: GrantEnd)?
    }

    /// So many are remembered.
    static let capacity = 100

    private var entries: [Entry] = []
    private var last = 0
    /// Rises with whatever changes it, but for leases that lapse.
    private(set) var changes = 0

    init() {
        entries.reserveCapacity(Self.capacity)
    }

    mutating func granted(
        _ lease: Lease, mode: LockMode, label: String?, waitedNanoseconds: Int64, now: Instant
    ) -> ID {
        let entry = Entry(
            number: last + 1, name: lease.name, token: lease.token, label: label, mode: mode, fence: lease.fence, grantedAt: now,
            waitedNanoseconds: waitedNanoseconds, deadline: lease.deadline)
        if entries.count < Self.capacity {
            entries.append(entry)
        } else {
            entries[last % Self.capacity] = entry
        }
        last += 1
        changes += 1
        return ID(number: last)
    }

    mutating func promised(_ id: ID, until deadline: Instant) {
        guard let place = place(of: id) else { return }
        entries[place].deadline = deadline
        changes += 1
    }

    mutating func ended(_ id: ID, _ how: GrantEnd, at instant: Instant) {
        guard let place = place(of: id), entries[place].end == nil else { return }
        changes += 1
        // Whoever finds its lease gone after its time was over has let it lapse.
        let hasLapsed = how == .lost && entries[place].deadline <= instant
        entries[place].end = hasLapsed ? (entries[place].deadline, .lapsed) : (instant, how)
    }

    /// The lock was taken from all who had it at `instant`.
    mutating func broken(_ name: String, at instant: Instant) {
        for place in entries.indices where entries[place].end == nil && ExactText(entries[place].name) == ExactText(name) {
            if entries[place].grantedAt <= instant { ended(ID(number: entries[place].number), .lost, at: instant) }
        }
    }

    private func place(of id: ID) -> Int? {
        let place = (id.number - 1) % Self.capacity
        return entries[place].number == id.number ? place : nil
    }

    /// The newest first.
    /// - Parameters:
    ///   - name: of this lock alone; `nil`: of all.
    ///   - wallTime: what people's clocks show at an instant, in milliseconds since 1970.
    func list(of name: String?, now: Instant, wallTime: (Instant) -> Int64) -> [GrantRecord] {
        let name = name.map { ExactText($0) }
        var next: [ExactText: Instant] = [:]
        return entries.filter { name == nil || ExactText($0.name) == name }.sorted { $0.number > $1.number }.map { entry in
            var end = entry.end ?? (entry.deadline <= now ? (entry.deadline, .lapsed) : nil)
            // Nobody told this sidecar, but it had not that lock alone any more when it was granted again.
            if entry.mode == .exclusive, end == nil, let granted = next[ExactText(entry.name)] { end = (granted, .lost) }
            next[ExactText(entry.name)] = entry.grantedAt
            return GrantRecord(
                name: entry.name, label: entry.label ?? OwnerToken.label(of: entry.token), mode: entry.mode, fence: entry.fence,
                grantedMilliseconds: wallTime(entry.grantedAt), waitedMilliseconds: entry.waitedNanoseconds / 1_000_000,
                promisedMilliseconds: wallTime(entry.deadline),
                endedMilliseconds: end.map { wallTime($0.at) }, end: end?.how)
        }
    }
}

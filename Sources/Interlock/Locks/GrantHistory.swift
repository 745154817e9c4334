internal import InterlockCore

/// The recent grants of this sidecar, in memory only. New grants replace the oldest.
struct GrantHistory {
    /// The ID of a remembered grant.
    struct ID: Comparable {
        fileprivate let number: Int

        static func < (left: ID, right: ID) -> Bool { left.number < right.number }
    }

    private struct Entry {
        let number: Int
        let name: String
        /// The token. It contains the label, unless the owner chose the token; `label` is set then.
        let token: String
        let label: String?
        let mode: LockMode
        let fence: Int64
        let grantedAt: Instant
        let waitedNanoseconds: Int64
        var deadline: Instant
        var end: (at: Instant, kind: GrantEnd)?
    }

    /// The number of grants remembered.
    static let capacity = 100

    private var entries: [Entry] = []
    private var lastNumber = 0
    /// A number that increases with each change, except when a lease expires.
    private(set) var changes = 0

    init() {
        entries.reserveCapacity(Self.capacity)
    }

    mutating func recordGrant(
        _ lease: Lease, mode: LockMode, label: String?, waitedNanoseconds: Int64, now: Instant
    ) -> ID {
        let entry = Entry(
            number: lastNumber + 1, name: lease.name, token: lease.token, label: label, mode: mode,
            fence: lease.fence, grantedAt: now, waitedNanoseconds: waitedNanoseconds, deadline: lease.deadline)
        if entries.count < Self.capacity {
            entries.append(entry)
        } else {
            entries[lastNumber % Self.capacity] = entry
        }
        lastNumber += 1
        changes += 1
        return ID(number: lastNumber)
    }

    mutating func updateDeadline(_ id: ID, until deadline: Instant) {
        guard let index = index(of: id) else { return }
        entries[index].deadline = deadline
        changes += 1
    }

    mutating func recordEnd(_ id: ID, _ kind: GrantEnd, at instant: Instant) {
        guard let index = index(of: id), entries[index].end == nil else { return }
        changes += 1
        // A lease whose loss is noticed after its deadline has simply expired.
        let hasLapsed = kind == .lost && entries[index].deadline <= instant
        entries[index].end = hasLapsed ? (entries[index].deadline, .lapsed) : (instant, kind)
    }

    /// Ends all grants that held the lock at `instant`.
    mutating func recordBreak(_ name: String, at instant: Instant) {
        for index in entries.indices where entries[index].end == nil && ExactText(entries[index].name) == ExactText(name) {
            if entries[index].grantedAt <= instant { recordEnd(ID(number: entries[index].number), .lost, at: instant) }
        }
    }

    private func index(of id: ID) -> Int? {
        let index = (id.number - 1) % Self.capacity
        return entries[index].number == id.number ? index : nil
    }

    /// Lists the grants, newest first.
    /// - Parameters:
    ///   - name: the lock whose grants are listed; `nil` for all locks.
    ///   - wallTimeMilliseconds: converts an instant to Unix time in milliseconds.
    func list(of name: String?, now: Instant, wallTimeMilliseconds: (Instant) -> Int64) -> [GrantRecord] {
        let name = name.map { ExactText($0) }
        var laterGrants: [ExactText: Instant] = [:]
        return entries.filter { name == nil || ExactText($0.name) == name }.sorted { $0.number > $1.number }.map { entry in
            var end = entry.end ?? (entry.deadline <= now ? (entry.deadline, .lapsed) : nil)
            // A later grant of an exclusive lock proves that this one was lost, even if this sidecar knows of no end.
            if entry.mode == .exclusive, end == nil, let laterGrantAt = laterGrants[ExactText(entry.name)] {
                end = (laterGrantAt, .lost)
            }
            laterGrants[ExactText(entry.name)] = entry.grantedAt
            return GrantRecord(
                name: entry.name, label: entry.label ?? OwnerToken.label(of: entry.token), mode: entry.mode, fence: entry.fence,
                grantedMilliseconds: wallTimeMilliseconds(entry.grantedAt),
                waitedMilliseconds: entry.waitedNanoseconds / 1_000_000,
                promisedMilliseconds: wallTimeMilliseconds(entry.deadline),
                endedMilliseconds: end.map { wallTimeMilliseconds($0.at) }, end: end?.kind)
        }
    }
}

internal import InterlockCore

/// Checks that no two clients consider themselves holders of a lock at the same time, unless both leases are shared, or
/// both hold slots of a semaphore that has enough slots.
///
/// `LeaseBook` determines which leases clients rely on. An overlap is excused by a fault that may cost exclusivity and
/// was active at any time since the older of the two leases was requested. Except in an overfull semaphore, an overlap
/// is also excused if a server of a quorum may have forgotten the older lease; see `QuorumCopies`.
///
/// Uses O(locks + valid leases) memory.
struct ExclusionChecker: HistoryChecker {
    static let invariant = Invariant.exclusion

    private var locks: [Int: LockHolders] = [:]
    private var copies = QuorumCopies()

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        defer { copies.observe(step) }
        switch step.kind {
        case .invoked(_, let change?), .ended(_, _, let change?), .linked(_, _, _, _, _, let change?):
            switch change {
            case .granted(let lease):
                began(lease, at: step.at, faults: faults, into: &violations)
            case .changed(let lease, let isRevived):
                if isRevived {
                    began(lease, at: step.at, faults: faults, into: &violations)
                } else {
                    locks[lease.lock]?.change(lease)
                }
            case .ended(let lease):
                locks[lease.lock]?.remove(lease)
            }
        case .invoked, .ended, .wrote, .linked, .forced, .breakerSeen, .faultBegan, .faultEnded, .finished:
            return
        }
    }

    /// Adds a lease whose client now considers itself the holder, and reports a conflict with other holders.
    private mutating func began(_ lease: RecordedLease, at instant: Instant, faults: FaultLog, into violations: inout [Violation])
    {
        guard lease.isBelieved(at: instant) else { return }
        let new = LockHolders.Holder(lease)
        let conflict = locks[lease.lock, default: LockHolders()].add(new, lease.mode, at: instant)
        for other in conflict.others {
            guard !faults.wasActive(.lostExclusivity, since: min(other.invoked, new.invoked)), !copies.mayBeLost(other.lease)
            else { continue }
            let shared = Double(min(other.until, new.until).nanoseconds - instant.nanoseconds) / 1e6
            report(
                at: instant, into: &violations,
                """
                lock \(lease.lock): lease \(new.lease) of client \(new.client) begins while lease \(other.lease) of client \
                \(other.client) has \(shared) ms left
                """)
        }
        if let overflow = conflict.overflow, !faults.wasActive(.lostExclusivity, since: overflow.oldestRequest) {
            report(
                at: instant, into: &violations,
                """
                lock \(lease.lock): lease \(new.lease) of client \(new.client) makes \(overflow.holders) holders of \(overflow.slots) \
                slots
                """)
        }
    }
}

/// The clients that consider themselves holders of a lock. Expired ones are dropped before they can cause a conflict.
/// Uses O(concurrent holders) memory.
struct LockHolders: Sendable {
    struct Holder: Sendable {
        var lease: LeaseID
        var client: Int
        var invoked: Instant
        var until: Instant

        init(_ lease: RecordedLease) {
            self.lease = lease.id
            client = lease.client
            invoked = lease.invoked
            until = lease.until
        }
    }

    /// The holders that a new one conflicts with.
    struct Conflict: Sendable {
        var others: [Holder] = []
        /// The number of holders, including the new one, if it exceeds the number of slots, and the time of the oldest
        /// holder's request.
        var overflow: (holders: Int, slots: Int, oldestRequest: Instant)?
    }

    /// The minimum number of readers that triggers the removal of expired ones.
    private static let minimumCleanupThreshold = 64

    private var writers: [Holder] = []
    private var readers: [LeaseID: Holder] = [:]
    private var slots: [LeaseID: Holder] = [:]
    /// The number of slots according to the holders.
    private var slotCount = 0
    private var cleanupThreshold = Self.minimumCleanupThreshold

    /// Adds a holder and returns its conflicts. O(holders) for exclusive leases and for semaphores that appear full;
    /// otherwise amortized O(1).
    mutating func add(_ new: Holder, _ mode: LeaseMode, at instant: Instant) -> Conflict {
        writers.removeAll { $0.until <= instant || $0.lease == new.lease }
        var conflict = Conflict()
        // Sharing the storage of an empty array would make `append` allocate.
        if !writers.isEmpty { conflict.others = writers }
        switch mode {
        case .exclusive:
            dropReaders(at: instant)
            dropSlots(at: instant)
            conflict.others += readers.values
            conflict.others += slots.values
            writers.append(new)
        case .shared:
            if readers.count >= cleanupThreshold { dropReaders(at: instant) }
            dropSlots(at: instant)
            conflict.others += slots.values
            readers[new.lease] = new
        case .permits(let count):
            dropReaders(at: instant)
            conflict.others += readers.values
            if slots.count >= max(slotCount, count) { dropSlots(at: instant) }
            slotCount = max(slotCount, count)
            slots[new.lease] = new
            guard slots.count > slotCount else { break }
            conflict.overflow = (slots.count, slotCount, slots.values.reduce(new.invoked) { min($0, $1.invoked) })
        }
        return conflict
    }

    mutating func change(_ lease: RecordedLease) {
        switch lease.mode {
        case .exclusive:
            if let index = writers.firstIndex(where: { $0.lease == lease.id }) { writers[index].until = lease.until }
        case .shared: readers[lease.id]?.until = lease.until
        case .permits: slots[lease.id]?.until = lease.until
        }
    }

    mutating func remove(_ lease: RecordedLease) {
        switch lease.mode {
        case .exclusive: writers.removeAll { $0.lease == lease.id }
        case .shared: readers[lease.id] = nil
        case .permits: slots[lease.id] = nil
        }
    }

    private mutating func dropReaders(at instant: Instant) {
        guard !readers.isEmpty else { return }
        readers = readers.filter { $0.value.until > instant }
        cleanupThreshold = max(Self.minimumCleanupThreshold, 2 * readers.count)
    }

    private mutating func dropSlots(at instant: Instant) {
        guard !slots.isEmpty else { return }
        slots = slots.filter { $0.value.until > instant }
        if slots.isEmpty { slotCount = 0 }
    }
}

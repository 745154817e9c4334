internal import InterlockCore

/// Checks that no two clients consider themselves holders of a lock at the same time, unless both leases are shared, or
/// both hold slots of a semaphore that has enough slots.
///
/// `LeaseBook` determines which leases clients rely on. A fault that may cost exclusivity excuses an overlap if it was
/// active at any time since the older of the two leases was requested. A quorum excuses it too if one of its servers
/// may have forgotten the older lease, except in an overfull semaphore; see `QuorumCopies`.
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
                add(lease, at: step.at, faults: faults, into: &violations)
            case .changed(let lease, let isRevived):
                if isRevived {
                    add(lease, at: step.at, faults: faults, into: &violations)
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
    private mutating func add(
        _ lease: RecordedLease, at instant: Instant, faults: FaultLog, into violations: inout [Violation]
    ) {
        guard lease.isBelieved(at: instant) else { return }
        let holder = LockHolders.Holder(lease)
        let conflict = locks[lease.lock, default: LockHolders()].add(holder, lease.mode, at: instant)
        for other in conflict.others {
            let oldestRequest = min(other.invoked, holder.invoked)
            guard !faults.wasActive(.lostExclusivity, since: oldestRequest), !copies.mayBeLost(other.lease) else {
                continue
            }
            let overlapMilliseconds = Double(min(other.until, holder.until).nanoseconds - instant.nanoseconds) / 1e6
            report(
                at: instant, into: &violations,
                """
                lock \(lease.lock): lease \(holder.lease) of client \(holder.client) begins while lease \(other.lease) \
                of client \(other.client) has \(overlapMilliseconds) ms left
                """)
        }
        if let overflow = conflict.overflow, !faults.wasActive(.lostExclusivity, since: overflow.oldestRequest) {
            report(
                at: instant, into: &violations,
                """
                lock \(lease.lock): lease \(holder.lease) of client \(holder.client) makes \(overflow.holders) holders \
                of \(overflow.slots) slots
                """)
        }
    }
}

/// The clients that consider themselves holders of a lock. Drops expired ones before they can cause a conflict.
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

    /// The conflicts of a new holder.
    struct Conflict: Sendable {
        /// The holders whose leases exclude the new one.
        var others: [Holder] = []
        /// The number of holders, including the new one, the number of slots, and the time of the oldest holder's
        /// request; `nil` if there are enough slots.
        var overflow: (holders: Int, slots: Int, oldestRequest: Instant)?
    }

    /// The minimum number of readers that triggers the removal of expired ones.
    private static let minimumCleanupThreshold = 64

    private var writers: [Holder] = []
    private var readers: [LeaseID: Holder] = [:]
    private var slotHolders: [LeaseID: Holder] = [:]
    /// The maximum number of slots that a holder requested.
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
            conflict.others += slotHolders.values
            writers.append(new)
        case .shared:
            if readers.count >= cleanupThreshold { dropReaders(at: instant) }
            dropSlots(at: instant)
            conflict.others += slotHolders.values
            readers[new.lease] = new
        case .permits(let count):
            dropReaders(at: instant)
            conflict.others += readers.values
            if slotHolders.count >= max(slotCount, count) { dropSlots(at: instant) }
            slotCount = max(slotCount, count)
            slotHolders[new.lease] = new
            guard slotHolders.count > slotCount else { break }
            let oldestRequest = slotHolders.values.reduce(new.invoked) { min($0, $1.invoked) }
            conflict.overflow = (slotHolders.count, slotCount, oldestRequest)
        }
        return conflict
    }

    /// Updates the end of a holder's lease.
    mutating func change(_ lease: RecordedLease) {
        switch lease.mode {
        case .exclusive:
            if let index = writers.firstIndex(where: { $0.lease == lease.id }) { writers[index].until = lease.until }
        case .shared: readers[lease.id]?.until = lease.until
        case .permits: slotHolders[lease.id]?.until = lease.until
        }
    }

    mutating func remove(_ lease: RecordedLease) {
        switch lease.mode {
        case .exclusive: writers.removeAll { $0.lease == lease.id }
        case .shared: readers[lease.id] = nil
        case .permits: slotHolders[lease.id] = nil
        }
    }

    private mutating func dropReaders(at instant: Instant) {
        guard !readers.isEmpty else { return }
        readers = readers.filter { $0.value.until > instant }
        cleanupThreshold = max(Self.minimumCleanupThreshold, 2 * readers.count)
    }

    private mutating func dropSlots(at instant: Instant) {
        guard !slotHolders.isEmpty else { return }
        slotHolders = slotHolders.filter { $0.value.until > instant }
        if slotHolders.isEmpty { slotCount = 0 }
    }
}

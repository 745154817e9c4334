internal import InterlockCore

/// No two leases of a lock are believed in at once, unless both are shared, or both are places of a semaphore and there are no
/// more of them than places.
///
/// Beliefs are those of `LeaseBook`. An overlap is excused when a fault that may cost exclusivity lasted at some time between
/// the request for the elder of the two leases and the overlap.
///
/// Bounded by locks and the leases that are believed in.
struct ExclusionChecker: HistoryChecker {
    static let promise = Promise.exclusion

    private var locks: [Int: LockHolders] = [:]

    mutating func observe(_ step: HistoryStep, faults: FaultLog, into violations: inout [Violation]) {
        switch step.what {
        case .invoked(_, let news?), .ended(_, _, let news?), .linked(_, _, _, _, _, let news?):
            switch news {
            case .granted(let lease):
                began(lease, at: step.at, faults: faults, into: &violations)
            case .changed(let lease, let beginsAnew):
                if beginsAnew {
                    began(lease, at: step.at, faults: faults, into: &violations)
                } else {
                    locks[lease.lock]?.change(lease)
                }
            case .ended(let lease):
                locks[lease.lock]?.remove(lease)
            }
        case .invoked, .ended, .wrote, .linked, .forced, .breakerSeen, .faultBegan, .faultEnded:
            return
        }
    }

    /// From now on the lease is believed in: whoever else is meanwhile, overlaps with it.
    private mutating func began(_ lease: RecordedLease, at instant: Instant, faults: FaultLog, into violations: inout [Violation]) {
        guard lease.isBelieved(at: instant) else { return }
        let new = LockHolders.Holder(lease)
        let conflict = locks[lease.lock, default: LockHolders()].add(new, lease.mode, at: instant)
        for other in conflict.others {
            guard !faults.touches(.lostExclusivity, since: min(other.invoked, new.invoked)) else { continue }
            let shared = Double(min(other.until, new.until).nanoseconds - instant.nanoseconds) / 1e6
            violations.append(
                Violation(
                    Self.promise, at: instant,
                    """
                    lock \(lease.lock): lease \(new.lease) of client \(new.client) is held while lease \(other.lease) of client \
                    \(other.client) has \(shared) ms left
                    """))
        }
        if let crowd = conflict.crowd, !faults.touches(.lostExclusivity, since: crowd.eldest) {
            violations.append(
                Violation(
                    Self.promise, at: instant,
                    """
                    lock \(lease.lock): with lease \(new.lease) of client \(new.client) it has \(crowd.holders) holders at once, and \
                    \(crowd.places) places
                    """))
        }
    }
}

/// Who believes to hold a lock. Those whose time is over are dropped when it matters. Bounded by those who hold it at once.
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

    /// Whom a new holder must not meet.
    struct Conflict: Sendable {
        var others: [Holder] = []
        /// More than there are places, the new one included; the eldest was asked for then.
        var crowd: (holders: Int, places: Int, eldest: Instant)?
    }

    /// Readers are not looked through before there are so many.
    private static let fewReaders = 64

    private var alone: [Holder] = []
    private var readers: [LeaseID: Holder] = [:]
    private var places: [LeaseID: Holder] = [:]
    /// As many as the semaphore has, by its holders.
    private var placeCount = 0
    private var readersWorthALook = Self.fewReaders

    /// O(holders) for one who is alone, and for one of a semaphore that seems to be full; else O(1), amortised.
    mutating func add(_ new: Holder, _ mode: LeaseMode, at instant: Instant) -> Conflict {
        alone.removeAll { $0.until <= instant || $0.lease == new.lease }
        var conflict = Conflict()
        // Not when it is empty: sharing its storage would have `append` make another.
        if !alone.isEmpty { conflict.others = alone }
        switch mode {
        case .exclusive:
            dropReaders(at: instant)
            dropPlaces(at: instant)
            conflict.others += readers.values
            conflict.others += places.values
            alone.append(new)
        case .shared:
            if readers.count >= readersWorthALook { dropReaders(at: instant) }
            dropPlaces(at: instant)
            conflict.others += places.values
            readers[new.lease] = new
        case .permits(let count):
            dropReaders(at: instant)
            conflict.others += readers.values
            if places.count >= max(placeCount, count) { dropPlaces(at: instant) }
            placeCount = max(placeCount, count)
            places[new.lease] = new
            guard places.count > placeCount else { break }
            conflict.crowd = (places.count, placeCount, places.values.reduce(new.invoked) { min($0, $1.invoked) })
        }
        return conflict
    }

    mutating func change(_ lease: RecordedLease) {
        switch lease.mode {
        case .exclusive:
            if let place = alone.firstIndex(where: { $0.lease == lease.id }) { alone[place].until = lease.until }
        case .shared: readers[lease.id]?.until = lease.until
        case .permits: places[lease.id]?.until = lease.until
        }
    }

    mutating func remove(_ lease: RecordedLease) {
        switch lease.mode {
        case .exclusive: alone.removeAll { $0.lease == lease.id }
        case .shared: readers[lease.id] = nil
        case .permits: places[lease.id] = nil
        }
    }

    private mutating func dropReaders(at instant: Instant) {
        guard !readers.isEmpty else { return }
        readers = readers.filter { $0.value.until > instant }
        readersWorthALook = max(Self.fewReaders, 2 * readers.count)
    }

    private mutating func dropPlaces(at instant: Instant) {
        guard !places.isEmpty else { return }
        places = places.filter { $0.value.until > instant }
        if places.isEmpty { placeCount = 0 }
    }
}

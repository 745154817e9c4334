internal import InterlockCore

/// Who believes to hold a lock. Those whose time is over are dropped when it matters. Bounded by those who hold it at once.
struct LockHolders: Sendable {
    struct Holder: Sendable {
        var lease: LeaseID
        var client: Int
        var invoked: Instant
        var until: Instant

        init(_ lease: Lease) {
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

    mutating func change(_ lease: Lease) {
        switch lease.mode {
        case .exclusive:
            if let place = alone.firstIndex(where: { $0.lease == lease.id }) { alone[place].until = lease.until }
        case .shared: readers[lease.id]?.until = lease.until
        case .permits: places[lease.id]?.until = lease.until
        }
    }

    mutating func remove(_ lease: Lease) {
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

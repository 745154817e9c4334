internal import InterlockCore

/// Tracks which leases clients rely on, and until when.
///
/// A client considers itself the holder as soon as it has the answer. It stops when the validity in the answer has
/// passed, counted from the *request*, when it releases the lease, or when it learns that the lease is lost. Counting
/// from the request is safe whichever process stalls in between, because the lease began after the request. If the
/// answer took longer than the validity, the client must renew before it relies on the lease.
///
/// Uses O(clients + valid leases) memory.
struct LeaseBook: Sendable {
    /// The number of leases per client above which the book drops the oldest expired one. It keeps expired leases
    /// because their holders may still write.
    private static let maximumLeases = 4

    /// The number of leases granted so far, over all locks.
    private(set) var grantCount = 0
    private var leases: [Int: [RecordedLease]] = [:]

    /// Returns the lease as its client last knew it; `nil` if the client never had it, or if the book has dropped it.
    func lease(_ id: LeaseID, of client: Int) -> RecordedLease? {
        leases[client]?.last { $0.id == id }
    }

    /// Records that a client sent a request. Returns the change of the lease that the request names.
    mutating func callInvoked(_ call: Call) -> LeaseChange? {
        switch call.operation {
        case .release(_, let id):
            return end(id, of: call.client)
        case .renew(_, let id, let ttlMilliseconds):
            // A renewal for less than the remaining time shortens the lease, whether or not the answer arrives.
            let end = call.invoked.advanced(byMilliseconds: ttlMilliseconds - ttlMilliseconds / 100 - 2)
            let shortened = leases[call.client]?.change(id) { lease in
                guard lease.until > end else { return false }
                lease.until = end
                return true
            }
            return shortened.map { .changed($0, isRevived: false) }
        case .acquire, .take, .permit, .report, .proxied:
            return nil
        }
    }

    /// Records the end of a call. Returns the change of the call's lease.
    mutating func callEnded(
        _ call: Call, _ ending: OperationEnding, at instant: Instant, faults: FaultLog
    ) -> LeaseChange? {
        switch (call.operation, ending) {
        case (.acquire(let lock, let mode, _, _, _), .done(.granted(let id, let fence, let validForMilliseconds))):
            let until = call.invoked.advanced(byMilliseconds: validForMilliseconds)
            // A repeated grant to the same owner renews the lease and keeps the fence.
            if let change = extend(id, call, fence: fence, until: until, at: instant) { return change }
            grantCount += 1
            var lease = RecordedLease(
                id: id, lock: lock, client: call.client, sidecar: call.sidecar, mode: mode, fence: fence,
                grantNumber: grantCount, lastEarlierGrant: call.earlierGrantCount, invoked: call.invoked, until: until)
            // While a client relies on an exclusive lease, no other client is granted the lock. So every earlier answer
            // was an earlier grant.
            if mode == .exclusive, lease.isBelieved(at: instant), !faults.wasActive(.lostExclusivity, since: call.invoked) {
                lease.lastEarlierGrant = grantCount - 1
            }
            leases[lease.client, default: []].add(lease, keeping: Self.maximumLeases, at: instant)
            return .granted(lease)
        case (.renew(_, let id, _), .done(.renewed(let validForMilliseconds))):
            return extend(
                id, call, fence: nil, until: call.invoked.advanced(byMilliseconds: validForMilliseconds), at: instant)
        case (.renew(_, let id, _), .refused(.lost)):
            return end(id, of: call.client)
        default:
            return nil
        }
    }

    /// Moves the end of a lease after a renewal or a repeated grant.
    /// - Parameter fence: the fence of a repeated grant; `nil` for a renewal.
    private mutating func extend(
        _ id: LeaseID, _ call: Call, fence: Int64?, until: Instant, at instant: Instant
    ) -> LeaseChange? {
        var wasBelieved = false
        let changed = leases[call.client]?.change(id) { lease in
            guard fence == nil || fence == lease.fence else { return false }
            wasBelieved = lease.isBelieved(at: instant)
            lease.until = until
            if fence != nil { lease.sidecar = call.sidecar }
            return true
        }
        return changed.map { .changed($0, isRevived: !wasBelieved && $0.isBelieved(at: instant)) }
    }

    /// Ends a lease whose client has closed the link.
    mutating func linkClosed(of id: LeaseID, by client: Int) -> LeaseChange? { end(id, of: client) }

    private mutating func end(_ id: LeaseID, of client: Int) -> LeaseChange? {
        let ended = leases[client]?.change(id) { lease in
            lease.until = .distantPast
            return true
        }
        return ended.map { .ended($0) }
    }
}

extension [RecordedLease] {
    /// Returns the lease after `body` has changed it; `nil` if the lease is unknown or `body` returns `false`.
    fileprivate mutating func change(_ id: LeaseID, _ body: (inout RecordedLease) -> Bool) -> RecordedLease? {
        guard let index = lastIndex(where: { $0.id == id }), body(&self[index]) else { return nil }
        return self[index]
    }

    /// Adds a lease. Removes the oldest expired one if there are then more than `count`.
    fileprivate mutating func add(_ lease: RecordedLease, keeping count: Int, at instant: Instant) {
        append(lease)
        guard self.count > count, let oldest = firstIndex(where: { !$0.isBelieved(at: instant) }) else { return }
        remove(at: oldest)
    }
}

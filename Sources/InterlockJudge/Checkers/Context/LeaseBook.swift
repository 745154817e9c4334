internal import InterlockCore

/// Tracks which leases clients rely on, and until when.
///
/// A client considers itself the holder from the answer on, until the validity in the answer has passed, counted from
/// the *request*, or until the client releases the lease or learns that it is lost. Counting from the request is safe
/// whichever process stalls in between, because the lease began after the request. If the response took longer than the
/// validity, the client must renew before it relies on the lease.
///
/// Uses O(clients + valid leases) memory.
struct LeaseBook: Sendable {
    /// The number of leases per client above which the oldest expired one is dropped. Expired leases are kept because
    /// their holders may still write.
    private static let maximumLeases = 4

    /// The number of leases granted so far, over all locks.
    private(set) var grants = 0
    private var leases: [Int: [RecordedLease]] = [:]

    /// Returns the lease as its client last knew it; `nil` if the client never had it, or had it too long ago.
    func lease(_ id: LeaseID, of client: Int) -> RecordedLease? {
        leases[client]?.last { $0.id == id }
    }

    mutating func invoked(_ call: Call) -> LeaseChange? {
        switch call.operation {
        case .release(_, let id):
            return end(id, of: call.client)
        case .renew(_, let id, let ttl):
            // A renewal for less than the remaining time shortens the lease, whether or not the answer arrives.
            let end = call.invoked.advanced(byMilliseconds: ttl - ttl / 100 - 2)
            let shorter = leases[call.client]?.change(id) { lease in
                guard lease.until > end else { return false }
                lease.until = end
                return true
            }
            return shorter.map { .changed($0, isRevived: false) }
        case .acquire, .take, .permit, .report, .proxied:
            return nil
        }
    }

    mutating func ended(_ call: Call, _ ending: OperationEnding, at instant: Instant, faults: FaultLog) -> LeaseChange? {
        switch (call.operation, ending) {
        case (.acquire(let lock, let mode, _, _, _), .done(.granted(let id, let fence, let validFor))):
            let until = call.invoked.advanced(byMilliseconds: validFor)
            // A repeated grant to the same owner renews the lease and keeps the fence.
            if let change = extend(id, call, fence: fence, until: until, at: instant) { return change }
            grants += 1
            var lease = RecordedLease(
                id: id, lock: lock, client: call.client, sidecar: call.sidecar, mode: mode, fence: fence, grantNumber: grants,
                lastEarlierGrant: call.grantsBefore, invoked: call.invoked, until: until)
            // While a client relies on an exclusive lease, no other client is granted the lock. So every earlier answer
            // was an earlier grant.
            if mode == .exclusive, lease.isBelieved(at: instant), !faults.wasActive(.lostExclusivity, since: call.invoked) {
                lease.lastEarlierGrant = grants - 1
            }
            leases[lease.client, default: []].add(lease, keeping: Self.maximumLeases, at: instant)
            return .granted(lease)
        case (.renew(_, let id, _), .done(.renewed(let validFor))):
            return extend(id, call, fence: nil, until: call.invoked.advanced(byMilliseconds: validFor), at: instant)
        case (.renew(_, let id, _), .refused(.lost)):
            return end(id, of: call.client)
        default:
            return nil
        }
    }

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
    mutating func left(_ id: LeaseID, by client: Int) -> LeaseChange? { end(id, of: client) }

    private mutating func end(_ id: LeaseID, of client: Int) -> LeaseChange? {
        let ended = leases[client]?.change(id) { lease in
            lease.until = .distantPast
            return true
        }
        return ended.map { .ended($0) }
    }
}

extension [RecordedLease] {
    /// Returns the lease after `body` has changed it; `nil` if there is none or `body` returns `false`.
    fileprivate mutating func change(_ id: LeaseID, _ body: (inout RecordedLease) -> Bool) -> RecordedLease? {
        guard let index = lastIndex(where: { $0.id == id }), body(&self[index]) else { return nil }
        return self[index]
    }

    fileprivate mutating func add(_ lease: RecordedLease, keeping count: Int, at instant: Instant) {
        append(lease)
        guard self.count > count, let oldest = firstIndex(where: { !$0.isBelieved(at: instant) }) else { return }
        remove(at: oldest)
    }
}

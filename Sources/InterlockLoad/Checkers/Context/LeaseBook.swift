internal import InterlockCore

/// Which leases clients believe in, and until when: the one place where that is decided.
///
/// A client believes in a lease from the answer until so long after it *invoked* the acquire or the renewal as the answer
/// says, or until it invokes the release, or is told that the lease is lost. That is sound whoever is stopped in between: the
/// lease was set after it was asked for. A client that waited for longer than a lease is valid must renew before it believes
/// anything.
///
/// Bounded by clients and the leases that they believe in.
struct LeaseBook: Sendable {
    /// So many leases of a client are remembered after they ended, for their holder may still write.
    private static let remembered = 4

    /// How many leases were granted, of all locks.
    private(set) var grants = 0
    private var leases: [Int: [Lease]] = [:]

    /// As its client last knew it; `nil`: it never had it, or too long ago.
    func lease(_ id: LeaseID, of client: Int) -> Lease? {
        leases[client]?.last { $0.id == id }
    }

    mutating func invoked(_ call: Call) -> LeaseNews? {
        switch call.operation {
        case .release(_, let id):
            return end(id, of: call.client)
        case .renew(_, let id, let ttl):
            // For less than is left it makes the lease shorter, whether or not the answer arrives.
            guard let place = place(of: id, of: call.client), let lease = leases[call.client]?[place] else { return nil }
            let end = call.invoked.advanced(byMilliseconds: ttl - ttl / 100 - 2)
            guard lease.until > end else { return nil }
            leases[call.client]?[place].until = end
            var shorter = lease
            shorter.until = end
            return .changed(shorter, beginsAnew: false)
        case .acquire, .take, .permit, .report, .proxied:
            return nil
        }
    }

    mutating func ended(_ call: Call, _ ending: OperationEnding, at instant: Instant, faults: FaultLog) -> LeaseNews? {
        switch (call.operation, ending) {
        case (.acquire(let lock, let mode, _, _), .done(.granted(let id, let fence, let validFor))):
            let until = call.invoked.advanced(byMilliseconds: validFor)
            // The same owner again: an extension keeps the fence.
            if let place = place(of: id, of: call.client), leases[call.client]?[place].fence == fence {
                return extend(place, of: call.client, until: until, at: instant)
            }
            grants += 1
            var lease = Lease(
                id: id, lock: lock, client: call.client, mode: mode, fence: fence, order: grants,
                certainlyAfter: call.grantsBefore, invoked: call.invoked, until: until)
            // While somebody has it alone nobody else is granted it: all that were answered before were granted before.
            if mode == .exclusive, lease.isBelieved(at: instant), !faults.touches(.lostExclusivity, since: call.invoked) {
                lease.certainlyAfter = grants - 1
            }
            remember(lease, at: instant)
            return .granted(lease)
        case (.renew(_, let id, _), .done(.renewed(let validFor))):
            guard let place = place(of: id, of: call.client) else { return nil }
            return extend(place, of: call.client, until: call.invoked.advanced(byMilliseconds: validFor), at: instant)
        case (.renew(_, let id, _), .refused(.lost)):
            return end(id, of: call.client)
        default:
            return nil
        }
    }

    private func place(of id: LeaseID, of client: Int) -> Int? {
        leases[client]?.lastIndex { $0.id == id }
    }

    private mutating func remember(_ lease: Lease, at instant: Instant) {
        leases[lease.client, default: []].append(lease)
        guard leases[lease.client]?.count ?? 0 > Self.remembered else { return }
        if let oldest = leases[lease.client]?.firstIndex(where: { !$0.isBelieved(at: instant) }) {
            leases[lease.client]?.remove(at: oldest)
        }
    }

    private mutating func extend(_ place: Int, of client: Int, until: Instant, at instant: Instant) -> LeaseNews? {
        guard var lease = leases[client]?[place] else { return nil }
        let wasBelieved = lease.isBelieved(at: instant)
        lease.until = until
        leases[client]?[place].until = until
        return .changed(lease, beginsAnew: !wasBelieved && lease.isBelieved(at: instant))
    }

    private mutating func end(_ id: LeaseID, of client: Int) -> LeaseNews? {
        guard let place = place(of: id, of: client), var lease = leases[client]?[place] else { return nil }
        lease.until = .distantPast
        leases[client]?[place].until = .distantPast
        return .ended(lease)
    }
}

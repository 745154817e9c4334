internal import InterlockCore

/// A lease as its holder knows it.
struct RecordedLease: Sendable {
    var id: LeaseID
    var lock: Int
    var client: Int
    /// That granted it last.
    var sidecar: Int
    var mode: LeaseMode
    var fence: Int64
    /// Its place among the grants of all locks, by their answers.
    var order: Int
    /// Grants of its lock up to this place were certainly made before it.
    var certainlyAfter: Int
    /// When it was asked for: it was not granted before.
    var invoked: Instant
    /// The holder believes in it until then; `distantPast`: no longer.
    var until: Instant

    func isBelieved(at instant: Instant) -> Bool { until > instant }
}

/// What an event changed in what a client believes of a lease.
enum LeaseNews: Sendable {
    /// It was granted: the client believes in it from now on, if its time is not over already.
    case granted(RecordedLease)
    /// It ends at another time. `beginsAnew`: the client did not believe in it any more, and does again.
    case changed(RecordedLease, beginsAnew: Bool)
    /// The client does not believe in it any more.
    case ended(RecordedLease)
}

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
    private var leases: [Int: [RecordedLease]] = [:]

    /// As its client last knew it; `nil`: it never had it, or too long ago.
    func lease(_ id: LeaseID, of client: Int) -> RecordedLease? {
        leases[client]?.last { $0.id == id }
    }

    mutating func invoked(_ call: Call) -> LeaseNews? {
        switch call.operation {
        case .release(_, let id):
            return end(id, of: call.client)
        case .renew(_, let id, let ttl):
            // For less than is left it makes the lease shorter, whether or not the answer arrives.
            let end = call.invoked.advanced(byMilliseconds: ttl - ttl / 100 - 2)
            let shorter = leases[call.client]?.change(id) { lease in
                guard lease.until > end else { return false }
                lease.until = end
                return true
            }
            return shorter.map { .changed($0, beginsAnew: false) }
        case .acquire, .take, .permit, .report, .proxied:
            return nil
        }
    }

    mutating func ended(_ call: Call, _ ending: OperationEnding, at instant: Instant, faults: FaultLog) -> LeaseNews? {
        switch (call.operation, ending) {
        case (.acquire(let lock, let mode, _, _, _), .done(.granted(let id, let fence, let validFor))):
            let until = call.invoked.advanced(byMilliseconds: validFor)
            // The same owner again: an extension keeps the fence.
            if let news = extend(id, call, fence: fence, until: until, at: instant) { return news }
            grants += 1
            var lease = RecordedLease(
                id: id, lock: lock, client: call.client, sidecar: call.sidecar, mode: mode, fence: fence, order: grants,
                certainlyAfter: call.grantsBefore, invoked: call.invoked, until: until)
            // While somebody has it alone nobody else is granted it: all that were answered before were granted before.
            if mode == .exclusive, lease.isBelieved(at: instant), !faults.touches(.lostExclusivity, since: call.invoked) {
                lease.certainlyAfter = grants - 1
            }
            leases[lease.client, default: []].add(lease, remembering: Self.remembered, at: instant)
            return .granted(lease)
        case (.renew(_, let id, _), .done(.renewed(let validFor))):
            return extend(id, call, fence: nil, until: call.invoked.advanced(byMilliseconds: validFor), at: instant)
        case (.renew(_, let id, _), .refused(.lost)):
            return end(id, of: call.client)
        default:
            return nil
        }
    }

    /// - Parameter fence: that it was granted again with; `nil`: it was renewed, whatever fence it has.
    private mutating func extend(
        _ id: LeaseID, _ call: Call, fence: Int64?, until: Instant, at instant: Instant
    ) -> LeaseNews? {
        var wasBelieved = false
        let changed = leases[call.client]?.change(id) { lease in
            guard fence == nil || fence == lease.fence else { return false }
            wasBelieved = lease.isBelieved(at: instant)
            lease.until = until
            if fence != nil { lease.sidecar = call.sidecar }
            return true
        }
        return changed.map { .changed($0, beginsAnew: !wasBelieved && $0.isBelieved(at: instant)) }
    }

    /// Its client believes in it no more.
    mutating func left(_ id: LeaseID, by client: Int) -> LeaseNews? { end(id, of: client) }

    private mutating func end(_ id: LeaseID, of client: Int) -> LeaseNews? {
        let ended = leases[client]?.change(id) { lease in
            lease.until = .distantPast
            return true
        }
        return ended.map { .ended($0) }
    }
}

extension [RecordedLease] {
    /// The lease as `body` leaves it; `nil`: there is none, or `body` says that it has not changed it.
    fileprivate mutating func change(_ id: LeaseID, _ body: (inout RecordedLease) -> Bool) -> RecordedLease? {
        guard let place = lastIndex(where: { $0.id == id }), body(&self[place]) else { return nil }
        return self[place]
    }

    fileprivate mutating func add(_ lease: RecordedLease, remembering count: Int, at instant: Instant) {
        append(lease)
        guard self.count > count, let oldest = firstIndex(where: { !$0.isBelieved(at: instant) }) else { return }
        remove(at: oldest)
    }
}

internal import Hiredis
internal import InterlockCore

/// Looks after leases whose holders want to be told when they are lost, or want them extended for as long as they live.
/// Confined to the coordinator's event loop.
final class LeaseKeeper {
    typealias FollowerID = UInt64

    private struct Follower {
        var id: FollowerID
        var isLinked: Bool
        var onEnd: (LeaseEnd) -> Void
    }

    /// One lease; there may be very many.
    private final class Entry {
        let name: String
        let token: String
        var lease: HeldLease
        /// What the lock's key holds instead of the token while several hold the lock.
        let group: String?
        /// Nearly always there is one: kept without an allocation of its own.
        var first: Follower?
        var others: [Follower] = []
        var next: Deadlines.Entry?
        /// Redis tells of changes.
        var isWatched = false
        var isBroken = false

        init(_ lease: Lease, held: HeldLease, follower: Follower) {
            name = lease.name
            token = lease.token
            group = lease.group
            self.lease = held
            first = follower
        }

        var followers: [Follower] { (first.map { [$0] } ?? []) + others }

        func add(_ follower: Follower) {
            if first == nil { first = follower } else { others.append(follower) }
        }

        func remove(_ id: FollowerID) {
            if first?.id == id { first = nil } else { others.removeAll { $0.id == id } }
            lease.isExtended = isLinked { _ in true }
        }

        func isLinked(where condition: (Follower) -> Bool) -> Bool {
            followers.contains { $0.isLinked && condition($0) }
        }
    }

    /// The leases of one lock: nearly always one, of a lock that several hold perhaps very many.
    private enum Leases {
        case one(Entry)
        case many([String: Entry])
    }

    /// The most leases that are looked after; further ones are refused.
    static let capacity = 100_000
    /// A lease is watched when it is held so long: short ones cost nothing.
    private static let watchAfterMilliseconds: Int64 = LockQueue.lookMilliseconds
    /// Extensions that are due within so many milliseconds of each other leave together.
    private static let batchMilliseconds: Int64 = 20

    private let runtime: CoordinatorRuntime
    private let watch: KeyWatch
    private let ceilingMilliseconds: Int64?
    private var leases: [String: Leases] = [:]
    private(set) var count = 0
    private var followed: [FollowerID: Entry] = [:]
    private var lastID: FollowerID = 0

    /// A lease is lost.
    var onLost: ((_ name: String, _ token: String) -> Void)?

    init(runtime: CoordinatorRuntime, watch: KeyWatch, ceiling: Duration?) {
        self.runtime = runtime
        self.watch = watch
        ceilingMilliseconds = ceiling?.wholeMilliseconds
    }

    var isFull: Bool { count >= Self.capacity }

    // MARK: Following

    /// Looks after a lease that was granted just now.
    /// - Parameters:
    ///   - isLinked: it is extended until `unfollow`.
    ///   - onEnd: called once, unless `unfollow` was before it.
    func follow(_ lease: Lease, isLinked: Bool, onEnd: @escaping (LeaseEnd) -> Void) -> FollowerID {
        lastID += 1
        let now = runtime.time.now()
        let follower = Follower(id: lastID, isLinked: isLinked, onEnd: onEnd)
        let deadline = now.advanced(byMilliseconds: lease.validMilliseconds)
        let entry: Entry
        if let known = self.entry(lease.name, lease.token) {
            // The same owner once more.
            entry = known
            entry.add(follower)
            entry.lease.moved(to: deadline)
            if isLinked { entry.lease.isExtended = true }
        } else {
            let held = HeldLease(
                ttl: lease.ttl, deadline: deadline, isExtended: isLinked, ceilingMilliseconds: ceilingMilliseconds, now: now)
            entry = Entry(lease, held: held, follower: follower)
            insert(entry)
        }
        followed[lastID] = entry
        plan(entry, now: now)
        return lastID
    }

    /// Nobody wants to be told any more: the lease lapses unless others follow it too.
    func unfollow(_ id: FollowerID) {
        guard let entry = followed.removeValue(forKey: id) else { return }
        entry.remove(id)
        if entry.followers.isEmpty { drop(entry) }
    }

    /// The lease that is followed under this ID.
    func lease(of id: FollowerID) -> (name: String, token: String)? {
        followed[id].map { ($0.name, $0.token) }
    }

    /// Whether the lease that is followed under this ID is linked to somebody else as well.
    func isLinkedByOthers(than id: FollowerID) -> Bool {
        followed[id]?.isLinked { $0.id != id } ?? false
    }

    /// It is being released by its holder.
    func released(_ name: String, token: String) {
        guard let entry = entry(name, token) else { return }
        end(entry, nil)
    }

    /// Its holder extended it.
    func moved(_ name: String, token: String, to deadline: Instant) {
        guard let entry = entry(name, token) else { return }
        entry.lease.moved(to: deadline)
        plan(entry, now: runtime.time.now())
    }

    /// The sidecar goes: holders of linked leases are told that nobody extends them any more.
    func goDown() {
        for entry in all where entry.lease.isExtended { end(entry, .shutdown) }
    }

    // MARK: The table

    private var all: [Entry] { leases.keys.flatMap(entries) }

    private func entries(of name: String) -> [Entry] {
        switch leases[name] {
        case .one(let entry): [entry]
        case .many(let entries): Array(entries.values)
        case nil: []
        }
    }

    private func entry(_ name: String, _ token: String) -> Entry? {
        guard count > 0 else { return nil }
        switch leases[name] {
        case .one(let entry): return entry.token == token ? entry : nil
        case .many(let entries): return entries[token]
        case nil: return nil
        }
    }

    private func stands(_ entry: Entry) -> Bool { self.entry(entry.name, entry.token) === entry }

    private func insert(_ entry: Entry) {
        count += 1
        switch leases.removeValue(forKey: entry.name) {
        case nil: leases[entry.name] = .one(entry)
        case .one(let other): leases[entry.name] = .many([other.token: other, entry.token: entry])
        case .many(var entries):
            entries[entry.token] = entry
            leases[entry.name] = .many(entries)
        }
    }

    private func drop(_ entry: Entry) {
        entry.next?.cancel()
        for follower in entry.followers { followed[follower.id] = nil }
        count -= 1
        guard case .many(var entries) = leases.removeValue(forKey: entry.name) else { return }
        entries[entry.token] = nil
        if !entries.isEmpty { leases[entry.name] = .many(entries) }
    }

    // MARK: News

    /// An operator took the lock.
    func broken(_ name: String) {
        for entry in entries(of: name) {
            entry.isBroken = true
            check(entry)
        }
    }

    func changed(_ name: String) {
        for entry in entries(of: name) { check(entry) }
    }

    func anythingChanged() {
        for entry in all { check(entry) }
    }

    /// What went unanswered is tried at once.
    func redisIsBack() {
        let now = runtime.time.now()
        for entry in all { plan(entry, now: now) }
    }

    // MARK: Steps

    private func plan(_ entry: Entry, now: Instant) {
        entry.next?.cancel()
        var instant: Instant
        switch entry.lease.step(now: now) {
        case .over: instant = now
        case .extend: instant = now
        case .wait(let until):
            instant = until
            if entry.lease.isExtended, until < entry.lease.deadline {
                // Rounded down: those that come soon after one another leave in one write.
                let batch = Self.batchMilliseconds * 1_000_000
                instant = max(now, Instant(nanoseconds: until.nanoseconds / batch * batch))
            }
        }
        if !entry.isWatched {
            instant = min(instant, now.advanced(byMilliseconds: Self.watchAfterMilliseconds))
        }
        entry.next = runtime.deadlines.schedule(at: instant) { [unowned self, unowned entry] in step(entry) }
    }

    private func step(_ entry: Entry) {
        let now = runtime.time.now()
        // What is due within a batch's time is done with it.
        switch entry.lease.step(now: now.advanced(byMilliseconds: Self.batchMilliseconds)) {
        case .over where entry.lease.step(now: now) == .over: return end(entry, .expired)
        case .extend(let ttl): return extend(entry, ttl: ttl, now: now)
        case .over, .wait: break
        }
        if !entry.isWatched { check(entry) }
        plan(entry, now: now)
    }

    private func extend(_ entry: Entry, ttl: Int64, now: Instant) {
        entry.lease.extensionBegan()
        entry.isWatched = true
        let keys = LockKeys(space: runtime.keys, name: entry.name)
        let script = RenewScript(keys: keys, token: entry.token, ttl: ttl, isGroup: entry.group != nil)
        watch.run(script) { [self] result in
            guard stands(entry) else { return }
            switch result {
            case .success(.holds): entry.lease.extended(ttl: ttl, sentAt: now)
            case .success: return end(entry, entry.isBroken ? .broken : .taken)
            case .failure: entry.lease.extensionFailed(now: runtime.time.now())
            }
            plan(entry, now: runtime.time.now())
        }
        plan(entry, now: now)
    }

    /// Looks whether the lease still stands; Redis tells of the next change.
    private func check(_ entry: Entry) {
        entry.isWatched = true
        watch.value(of: runtime.keys.lock(entry.name)) { [self] result in
            guard stands(entry) else { return }
            switch result {
            case .success(let value) where value == entry.group ?? entry.token: break
            case .success(let value): end(entry, entry.isBroken ? .broken : value == nil ? .deleted : .taken)
            // The next look, or the deadline, will tell.
            case .failure: entry.isWatched = false
            }
        }
    }

    private func end(_ entry: Entry, _ loss: LeaseLoss?) {
        let followers = entry.followers
        drop(entry)
        if loss != nil { onLost?(entry.name, entry.token) }
        for follower in followers {
            follower.onEnd(
                LeaseEnd(follower: LeaseFollower(id: follower.id), name: entry.name, token: entry.token, loss: loss))
        }
    }
}

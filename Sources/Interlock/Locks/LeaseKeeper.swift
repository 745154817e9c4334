internal import Hiredis
internal import InterlockCore

/// Looks after leases whose holders want to be told when they are lost, or want them extended for as long as they live.
/// Confined to the coordinator's event loop.
final class LeaseKeeper {
    typealias FollowerID = UInt64

    private struct Key: Hashable {
        var name: String
        var token: String
    }

    private struct Follower {
        var id: FollowerID
        var isLinked: Bool
        var onEnd: (LeaseLoss?) -> Void
    }

    private final class Entry {
        let key: Key
        var lease: HeldLease
        /// What the lock's key holds while the lease stands.
        let value: String
        var isGroup: Bool
        var followers: [Follower]
        var next: Deadlines.Entry?
        /// Redis tells of changes.
        var isWatched = false
        var isBroken = false

        init(key: Key, lease: HeldLease, group: String?, followers: [Follower]) {
            self.key = key
            self.lease = lease
            value = group ?? key.token
            isGroup = group != nil
            self.followers = followers
        }
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
    private var entries: [Key: Entry] = [:]
    private var keys: [String: [Key]] = [:]
    private var owners: [FollowerID: Key] = [:]
    private var lastID: FollowerID = 0

    /// A lease is lost.
    var onLost: ((_ name: String, _ token: String) -> Void)?

    init(runtime: CoordinatorRuntime, watch: KeyWatch, ceiling: Duration?) {
        self.runtime = runtime
        self.watch = watch
        ceilingMilliseconds = ceiling?.wholeMilliseconds
    }

    var count: Int { entries.count }
    var isFull: Bool { entries.count >= Self.capacity }

    // MARK: Following

    /// Looks after a lease that was granted just now.
    /// - Parameters:
    ///   - isLinked: it is extended until `unfollow`.
    ///   - onEnd: called once, unless `unfollow` was before it; `nil`: its holder released it.
    func follow(_ lease: Lease, isLinked: Bool, onEnd: @escaping (LeaseLoss?) -> Void) -> FollowerID {
        lastID += 1
        let now = runtime.time.now()
        let key = Key(name: lease.name, token: lease.token)
        let follower = Follower(id: lastID, isLinked: isLinked, onEnd: onEnd)
        owners[lastID] = key
        if let entry = entries[key] {
            // The same owner once more.
            entry.followers.append(follower)
            entry.lease.moved(to: now.advanced(byMilliseconds: lease.validMilliseconds))
            if isLinked { entry.lease.isExtended = true }
            plan(entry, now: now)
            return lastID
        }
        let held = HeldLease(
            ttl: lease.ttl, deadline: now.advanced(byMilliseconds: lease.validMilliseconds), isExtended: isLinked,
            ceilingMilliseconds: ceilingMilliseconds, now: now)
        let entry = Entry(key: key, lease: held, group: lease.group, followers: [follower])
        entries[key] = entry
        keys[key.name, default: []].append(key)
        plan(entry, now: now)
        return lastID
    }

    /// Nobody wants to be told any more: the lease lapses unless others follow it too.
    func unfollow(_ id: FollowerID) {
        guard let key = owners.removeValue(forKey: id), let entry = entries[key] else { return }
        entry.followers.removeAll { $0.id == id }
        entry.lease.isExtended = entry.followers.contains(where: \.isLinked)
        if entry.followers.isEmpty { drop(entry) }
    }

    /// The lease that is followed under this ID.
    func lease(of id: FollowerID) -> (name: String, token: String)? {
        owners[id].map { ($0.name, $0.token) }
    }

    /// Whether the lease that is followed under this ID is linked to somebody else as well.
    func isLinkedByOthers(than id: FollowerID) -> Bool {
        guard let key = owners[id], let entry = entries[key] else { return false }
        return entry.followers.contains { $0.isLinked && $0.id != id }
    }

    /// It is being released by its holder.
    func released(_ name: String, token: String) {
        guard !entries.isEmpty, let entry = entries[Key(name: name, token: token)] else { return }
        end(entry, nil)
    }

    /// Its holder extended it.
    func moved(_ name: String, token: String, to deadline: Instant) {
        guard !entries.isEmpty, let entry = entries[Key(name: name, token: token)] else { return }
        entry.lease.moved(to: deadline)
        plan(entry, now: runtime.time.now())
    }

    /// The sidecar goes: holders of linked leases are told that nobody extends them any more.
    func goDown() {
        for entry in Array(entries.values) where entry.lease.isExtended { end(entry, .shutdown) }
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
        for entry in Array(entries.values) { check(entry) }
    }

    /// What went unanswered is tried at once.
    func redisIsBack() {
        let now = runtime.time.now()
        for entry in Array(entries.values) { plan(entry, now: now) }
    }

    private func entries(of name: String) -> [Entry] {
        guard !entries.isEmpty, let keys = keys[name] else { return [] }
        return keys.compactMap { entries[$0] }
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
        let keys = LockKeys(space: runtime.keys, name: entry.key.name)
        let script = RenewScript(keys: keys, token: entry.key.token, ttl: ttl, isGroup: entry.isGroup)
        watch.run(script) { [self] result in
            guard entries[entry.key] === entry else { return }
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
        watch.value(of: runtime.keys.lock(entry.key.name)) { [self] result in
            guard entries[entry.key] === entry else { return }
            switch result {
            case .success(let value) where value == entry.value: break
            case .success(let value): end(entry, entry.isBroken ? .broken : value == nil ? .deleted : .taken)
            // The next look, or the deadline, will tell.
            case .failure: entry.isWatched = false
            }
        }
    }

    private func end(_ entry: Entry, _ loss: LeaseLoss?) {
        let followers = entry.followers
        drop(entry)
        if loss != nil { onLost?(entry.key.name, entry.key.token) }
        for follower in followers { follower.onEnd(loss) }
    }

    private func drop(_ entry: Entry) {
        entry.next?.cancel()
        entries[entry.key] = nil
        for follower in entry.followers { owners[follower.id] = nil }
        var others = keys[entry.key.name] ?? []
        others.removeAll { $0 == entry.key }
        keys[entry.key.name] = others.isEmpty ? nil : others
    }
}

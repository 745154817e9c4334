internal import InterlockCore

/// Looks after leases whose holders want them extended for as long as they live: `LeaseKeeper`, with one follower for a lease.
final class SimulatedLeaseKeeper {
    /// What its holder hears of a lease.
    struct Follower {
        /// An extension is asked for: by it the lease lasts for so many ms.
        var extending: (_ ttl: Int64) -> Void
        /// It was carried out, and from its asking on can be relied on for so many ms; `nil`: it was not.
        var extended: (_ validFor: Int64?) -> Void
        /// The lease is lost.
        var lost: () -> Void
    }

    private final class Entry {
        let lock: SimulatedLock
        let token: String
        let group: String?
        let isOwners: Bool
        let follower: Follower
        var lease: HeldLease
        var next: SimulatedWorld.EventID?
        /// Redis tells of changes.
        var isWatched = false
        /// Its time is over, and Redis is being asked whether it really is.
        var isBeingAsked = false

        init(lock: SimulatedLock, grant: LeaseGrant, isOwners: Bool, held: HeldLease, follower: Follower) {
            self.lock = lock
            token = grant.token
            group = grant.group
            self.isOwners = isOwners
            lease = held
            self.follower = follower
        }

        var value: String { group ?? token }
    }

    private unowned let room: LockRoom
    /// In the order in which they came.
    private var entries: [Entry] = []

    init(room: LockRoom) {
        self.room = room
    }

    private var world: SimulatedWorld { room.world }
    private var now: Instant { room.now }
    private var watch: SimulatedKeyWatch { room.sidecar.watch }

    private func entry(_ lock: SimulatedLock, _ token: String) -> Entry? {
        entries.first { $0.lock.number == lock.number && $0.token == token }
    }

    private func stands(_ entry: Entry) -> Bool { entries.contains { $0 === entry } }

    // MARK: Following

    /// Looks after a lease that was granted just now; the same owner's once.
    func follow(_ lock: SimulatedLock, _ grant: LeaseGrant, ttl: Int64, isOwners: Bool, follower: Follower) {
        guard entry(lock, grant.token) == nil else { return }
        let held = HeldLease(ttl: ttl, deadline: grant.deadline, isExtended: true, ceilingMilliseconds: nil, now: now)
        let entry = Entry(lock: lock, grant: grant, isOwners: isOwners, held: held, follower: follower)
        entries.append(entry)
        plan(entry)
    }

    /// Its client has gone: it is released, unless its owner chose the token and may ask again.
    func clientLeft(_ lock: SimulatedLock, token: String) {
        guard let entry = entry(lock, token) else { return }
        drop(entry)
        if !entry.isOwners { room.endLease(of: lock, token: token, ttl: entry.lease.ttl) }
    }

    /// It is being released by its holder.
    func released(_ lock: SimulatedLock, token: String) {
        if let entry = entry(lock, token) { drop(entry) }
    }

    /// Its holder extended it.
    func moved(_ lock: SimulatedLock, token: String, to deadline: Instant) {
        guard let entry = entry(lock, token) else { return }
        entry.lease.moved(to: deadline, now: now)
        plan(entry)
    }

    private func drop(_ entry: Entry) {
        if let next = entry.next { world.cancel(next) }
        entries.removeAll { $0 === entry }
    }

    // MARK: News

    /// `nil`: any may have been changed.
    func changed(_ number: Int?) {
        for entry in entries where number == nil || entry.lock.number == number { check(entry) }
    }

    /// What went unanswered is tried at once.
    func redisIsUp() {
        for entry in entries { plan(entry) }
    }

    // MARK: Steps

    private func plan(_ entry: Entry) {
        if let next = entry.next { world.cancel(next) }
        var instant: Instant
        switch entry.lease.step(now: now) {
        case .over, .extend: instant = now
        case .wait(let until):
            instant = until
            let batch = HeldLease.batchMilliseconds * SimulatedWorld.millisecond
            if entry.lease.isExtended, until < entry.lease.deadline, until.nanoseconds - now.nanoseconds > batch {
                instant = Instant(nanoseconds: until.nanoseconds / batch * batch)
            }
        }
        if !entry.isWatched, watch.isUp {
            instant = min(instant, now.advanced(byMilliseconds: LockQueue.lookMilliseconds))
        }
        entry.next = room.sidecar.timer(at: instant) { [unowned self, unowned entry] in
            entry.next = nil
            step(entry)
        }
    }

    private func step(_ entry: Entry) {
        switch entry.lease.step(now: now) {
        case .over: return expire(entry)
        case .extend(let ttl): return extend(entry, ttl: ttl)
        case .wait:
            // What is due within a batch's time is done with it.
            let soon = now.advanced(byMilliseconds: HeldLease.batchMilliseconds)
            if case .extend(let ttl) = entry.lease.step(now: soon) { return extend(entry, ttl: ttl) }
        }
        if !entry.isWatched, watch.isUp { check(entry) }
        plan(entry)
    }

    private func extend(_ entry: Entry, ttl: Int64) {
        let sentAt = now
        let (keys, token, isGroup) = (entry.lock.keys, entry.token, entry.group != nil)
        entry.lease.extensionBegan()
        entry.isWatched = watch.isUp
        entry.follower.extending(ttl)
        let script: (inout ModelRedis) -> Bool = { model in
            isGroup
                ? model.renewShare(keys, token: token, ttl: ttl, isBySidecar: true)
                : model.renew(keys, token: token, ttl: ttl, isBySidecar: true) == .holds
        }
        let answered: (Result<Bool, LostAnswer>) -> Void = { [self] result in
            guard stands(entry) else { return }
            switch result {
            case .success(true):
                entry.lease.extended(ttl: ttl, sentAt: sentAt)
                entry.follower.extended(LeaseValidity.remaining(ttl: ttl, sentAt: sentAt, now: sentAt))
            case .success(false) where entry.group == nil:
                entry.lease.extensionFailed(now: now)
                entry.follower.extended(nil)
                // Lost: the look tells how.
                check(entry)
            case .success(false):
                entry.follower.extended(nil)
                // The group goes on without it.
                return lose(entry)
            case .failure:
                entry.lease.extensionFailed(now: now)
                entry.follower.extended(nil)
            }
            plan(entry)
        }
        // What is watched is extended where it is watched: the server need not tell of that change.
        let name: ModelScript = isGroup ? .shareRenew : .renew
        if watch.isUp {
            watch.run(name, reading: keys.lock, script, completion: answered)
        } else {
            room.sidecar.redis.run(name, script, completion: answered)
        }
        plan(entry)
    }

    /// Looks whether it still stands; Redis tells of the next change.
    private func check(_ entry: Entry) {
        entry.isWatched = true
        watch.value(of: entry.lock.keys.lock) { [self] result in
            guard stands(entry) else { return }
            switch result {
            case .success(entry.value): break
            case .success: lose(entry)
            // The deadline will tell, or the look when the watching connection is back.
            case .failure: entry.isWatched = false
            }
        }
    }

    /// Its time is over, as far as is known here. Its holder may have extended it through another sidecar.
    private func expire(_ entry: Entry) {
        guard !entry.lease.isExtended, entry.group == nil, !entry.isBeingAsked else { return lose(entry) }
        entry.isBeingAsked = true
        let sentAt = now
        watch.value(of: entry.lock.keys.lock) { [self] result in
            guard stands(entry) else { return }
            guard case .success(entry.value) = result else { return lose(entry) }
            watch.remaining(of: entry.lock.keys.lock) { [self] result in
                guard stands(entry) else { return }
                entry.isBeingAsked = false
                if case .success(let ttl) = result, ttl > LeaseValidity.drift(ofTTL: entry.lease.ttl) {
                    entry.lease.moved(to: LeaseValidity.deadline(ttl: ttl, sentAt: sentAt), now: now)
                }
                guard entry.lease.step(now: now) != .over else { return lose(entry) }
                plan(entry)
            }
        }
    }

    private func lose(_ entry: Entry) {
        drop(entry)
        entry.follower.lost()
    }
}

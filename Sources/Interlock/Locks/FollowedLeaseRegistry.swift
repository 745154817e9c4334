internal import CoreMetrics
internal import InterlockCore
internal import RedisClient

/// Follows leases for their holders: reports the loss of a lease, and renews it if it is linked. Confined to the
/// coordinator's event loop.
final class FollowedLeaseRegistry {
    typealias FollowerID = UInt64

    private struct Follower {
        var id: FollowerID
        /// The client, which follows a lease at most once; `nil` if each call is a new follower.
        var client: ObjectIdentifier?
        var isLinked: Bool
        var onEnd: (LeaseEnd) -> Void
    }

    /// One followed lease.
    private final class Entry {
        /// Increases with each new entry.
        let number: UInt64
        let name: String
        let token: String
        /// The grant's fence, because all grants to an owner have the same token.
        let fence: Int64
        var lease: HeldLease
        /// The value of the lock's key if a group (readers, or holders of a semaphore) holds the lock; `nil` for an
        /// exclusive lease, whose key contains the token.
        let group: String?
        /// Whether the owner chose the token.
        let hasOwnerToken: Bool
        /// The first follower, stored inline because most entries have only one.
        private var first: Follower?
        private var others: [Follower] = []
        /// The timer of the next step.
        var nextStep: Deadlines.Entry?
        /// Whether Redis reports changes of the lock's key to this sidecar.
        var isWatched = false
        var isBroken = false
        /// The time of the first check that found no key while the reason was unknown.
        var missingSince: Instant?
        /// Whether the lease has expired by the local clock and its actual TTL was requested from Redis.
        var isTTLRequested = false
        /// Whether Redis has rejected a renewal. If the owner still holds the lock, it has a later lease.
        var isRenewalRejected = false

        init(_ lease: Lease, held: HeldLease, follower: Follower) {
            number = follower.id
            name = lease.name
            token = lease.token
            fence = lease.fence
            group = lease.group
            hasOwnerToken = lease.hasOwnerToken
            self.lease = held
            first = follower
        }

        var followers: [Follower] { (first.map { [$0] } ?? []) + others }

        func add(_ follower: Follower) {
            if first == nil { first = follower } else { others.append(follower) }
        }

        /// Returns the ID under which this client already follows the lease; `nil` if it does not. Links the
        /// follower if `isLinked`.
        func followerID(of client: ObjectIdentifier, isLinked: Bool) -> FollowerID? {
            if var follower = first, follower.client == client {
                follower.isLinked = isLinked || follower.isLinked
                // Written back in one assignment: assigning through `first?` would overlap with the read on the
                // right-hand side.
                first = follower
                return follower.id
            }
            guard let index = others.firstIndex(where: { $0.client == client }) else { return nil }
            if isLinked { others[index].isLinked = true }
            return others[index].id
        }

        func remove(_ id: FollowerID) {
            if first?.id == id { first = nil } else { others.removeAll { $0.id == id } }
            lease.isAutoRenewed = isLinked { _ in true }
        }

        func isLinked(where condition: (Follower) -> Bool) -> Bool {
            followers.contains { $0.isLinked && condition($0) }
        }
    }

    /// The leases of one lock: usually one, possibly many for a shared lock or a semaphore.
    private enum Leases {
        case one(Entry)
        case many([ExactText: Entry])
    }

    /// The maximum number of linked leases, and separately of leases that are only followed. Requests to follow more
    /// are rejected.
    static let capacity = 100_000
    /// The time, in milliseconds, after which the key of a lease is watched. A lease that is held for less time costs
    /// no command.
    private static let watchAfterMilliseconds: Int64 = LockQueue.checkMilliseconds
    /// The time, in milliseconds, to wait for the message about a break after the key has disappeared. The message
    /// arrives on another connection, so it may come later.
    private static let breakMessageMilliseconds: Int64 = LockQueue.checkMilliseconds

    private let runtime: CoordinatorRuntime
    private let scripts: LockScripts
    private let watch: KeyWatch
    private let maximumHoldMilliseconds: Int64?
    private let lossCounters = Dictionary(
        uniqueKeysWithValues: LeaseLoss.known.map { reason in
            (reason, Counter(label: "interlock_leases_lost_total", dimensions: [("reason", reason.rawValue)]))
        })
    private var leases: [ExactText: Leases] = [:]
    private(set) var count = 0
    /// The number of leases that are linked.
    private(set) var linkedCount = 0
    private var followed: [FollowerID: Entry] = [:]
    private var lastID: FollowerID = 0
    /// Whether the registry is closed and follows no more leases.
    private(set) var isClosed = false

    /// Called when a lease is lost.
    var onLost: ((_ name: String, _ token: String, _ fence: Int64) -> Void)?
    /// Called when a lease has a later deadline than was known.
    var onRenewed: ((_ name: String, _ token: String, _ fence: Int64, _ deadline: Instant) -> Void)?
    /// Waits until the configured number of replicas has a renewal. Only then may the holder rely on it.
    var replicate: ((RenewScript, @escaping (LockCoordinator.ReplicationOutcome) -> Void) -> Void)?

    init(runtime: CoordinatorRuntime, scripts: LockScripts, watch: KeyWatch, maximumHold: Duration?) {
        self.runtime = runtime
        self.scripts = scripts
        self.watch = watch
        maximumHoldMilliseconds = maximumHold?.wholeMilliseconds
    }

    /// Returns whether the limit for this kind of lease, linked or only followed, is reached.
    func isFull(forLinked isLinked: Bool) -> Bool {
        (isLinked ? linkedCount : count - linkedCount) >= Self.capacity
    }

    // MARK: Following

    /// Starts following a lease that was just granted.
    /// - Parameters:
    ///   - isLinked: whether the lease is renewed until `unfollow`.
    ///   - client: the client, which follows a lease at most once; `nil` if each call is a new follower.
    ///   - onEnd: called once, unless `unfollow` is called first.
    func follow(
        _ lease: Lease, isLinked: Bool, client: ObjectIdentifier?, onEnd: @escaping (LeaseEnd) -> Void
    ) -> FollowerID {
        let now = runtime.time.now()
        let existing = existingEntry(for: lease, client: client)
        if let existing, isLinked, !existing.lease.isAutoRenewed {
            existing.lease.isAutoRenewed = true
            linkedCount += 1
        }
        if let existing, let client, let id = existing.followerID(of: client, isLinked: isLinked) {
            scheduleNextStep(existing, now: now)
            return id
        }
        lastID += 1
        let follower = Follower(id: lastID, client: client, isLinked: isLinked, onEnd: onEnd)
        let entry: Entry
        if let existing {
            // The same owner has acquired the lock again.
            entry = existing
            entry.add(follower)
        } else {
            let held = HeldLease(
                ttlMilliseconds: lease.ttlMilliseconds, deadline: lease.deadline, isAutoRenewed: isLinked,
                maximumHoldMilliseconds: maximumHoldMilliseconds, now: now
            )
            entry = Entry(lease, held: held, follower: follower)
            insert(entry)
        }
        followed[lastID] = entry
        scheduleNextStep(entry, now: now)
        return lastID
    }

    /// Stops following a lease. A linked lease then expires unless another follower is linked to it.
    func unfollow(_ id: FollowerID) {
        guard let entry = followed.removeValue(forKey: id) else { return }
        let wasLinked = entry.lease.isAutoRenewed
        entry.remove(id)
        if entry.followers.isEmpty {
            entry.lease.isAutoRenewed = wasLinked
            drop(entry)
        } else if wasLinked, !entry.lease.isAutoRenewed {
            linkedCount -= 1
        }
    }

    /// Returns the lease to release when this follower leaves; `nil` if another follower is linked to the lease, or if
    /// its owner chose the token, because a retry elsewhere may then hold the lease.
    func leaseToRelease(of id: FollowerID) -> (name: String, token: String, ttlMilliseconds: Int64)? {
        guard let entry = followed[id], !entry.hasOwnerToken, !entry.isLinked(where: { $0.id != id }) else { return nil }
        return (entry.name, entry.token, entry.lease.ttlMilliseconds)
    }

    /// Returns whether the lease has a follower.
    func follows(_ name: String, token: String) -> Bool { entry(name, token) != nil }

    /// Stops following a lease that its holder releases.
    /// - Parameter fence: the fence of the only grant to stop following; `nil` for the token's current grant. The
    ///   methods below have the same parameter.
    func leaseReleased(_ name: String, token: String, fence: Int64? = nil) {
        guard let entry = entry(name, token), fence ?? entry.fence == entry.fence else { return }
        end(entry, nil)
    }

    /// Applies the new deadline of a lease that its holder has renewed.
    func updateDeadline(_ name: String, token: String, fence: Int64? = nil, to deadline: Instant) {
        guard let entry = entry(name, token), fence ?? entry.fence == entry.fence else { return }
        let now = runtime.time.now()
        entry.lease.updateDeadline(to: deadline, now: now)
        scheduleNextStep(entry, now: now)
    }

    /// Applies an earlier deadline that the holder has chosen. Has no effect if the deadline is not earlier.
    func leaseShortened(_ name: String, token: String, fence: Int64? = nil, to deadline: Instant) {
        guard let entry = entry(name, token), entry.lease.deadline > deadline else { return }
        updateDeadline(name, token: token, fence: fence, to: deadline)
    }

    /// Applies the deadline of a repeated grant to the same owner, unless the holder was promised a later one.
    func leaseGrantedAgain(_ lease: Lease, until deadline: Instant) {
        guard let entry = entry(lease.name, lease.token), entry.lease.deadline < deadline else { return }
        updateDeadline(lease.name, token: lease.token, fence: lease.fence, to: deadline)
    }

    /// Notifies the holders of linked leases that the sidecar is shutting down and no longer renews them.
    func shutDown() {
        for entry in entriesInOrder where entry.lease.isAutoRenewed { end(entry, .shutdown) }
    }

    /// Stops following all leases because the sidecar stops. Notifies the followers.
    func close() {
        isClosed = true
        for entry in entriesInOrder { end(entry, .shutdown) }
    }

    // MARK: The table

    /// All entries in the order in which they were granted. O(n log n).
    private var entriesInOrder: [Entry] {
        leases.keys.flatMap { entries(of: $0.text) }.sorted { $0.number < $1.number }
    }

    private func entries(of name: String) -> [Entry] {
        switch leases[ExactText(name)] {
        case .one(let entry): [entry]
        case .many(let entries): entries.values.sorted { $0.number < $1.number }
        case nil: []
        }
    }

    private func entry(_ name: String, _ token: String) -> Entry? {
        guard count > 0 else { return nil }
        switch leases[ExactText(name)] {
        case .one(let entry): return ExactText(entry.token) == ExactText(token) ? entry : nil
        case .many(let entries): return entries[ExactText(token)]
        case nil: return nil
        }
    }

    /// Returns the entry of a lease that is already followed. If it is an earlier lease of the same owner, that lease
    /// was lost: notifies its followers, except for the client that has the new lease, and returns `nil`.
    private func existingEntry(for lease: Lease, client: ObjectIdentifier?) -> Entry? {
        guard let entry = entry(lease.name, lease.token) else { return nil }
        guard entry.fence < lease.fence else { return entry }
        if let client, let id = entry.followerID(of: client, isLinked: false) { unfollow(id) }
        if isFollowed(entry) { end(entry, .taken) }
        return nil
    }

    private func isFollowed(_ entry: Entry) -> Bool { self.entry(entry.name, entry.token) === entry }

    private func insert(_ entry: Entry) {
        count += 1
        if entry.lease.isAutoRenewed { linkedCount += 1 }
        let name = ExactText(entry.name)
        let token = ExactText(entry.token)
        switch leases.removeValue(forKey: name) {
        case nil: leases[name] = .one(entry)
        case .one(let other): leases[name] = .many([ExactText(other.token): other, token: entry])
        case .many(var entries):
            entries[token] = entry
            leases[name] = .many(entries)
        }
    }

    private func drop(_ entry: Entry) {
        entry.nextStep?.cancel()
        for follower in entry.followers { followed[follower.id] = nil }
        count -= 1
        if entry.lease.isAutoRenewed { linkedCount -= 1 }
        let name = ExactText(entry.name)
        guard case .many(var entries) = leases.removeValue(forKey: name) else { return }
        entries[ExactText(entry.token)] = nil
        if !entries.isEmpty { leases[name] = .many(entries) }
    }

    // MARK: Notifications

    /// Records that an operator has broken the lock.
    func lockBroken(_ name: String) {
        let entries = entries(of: name)
        for entry in entries { entry.isBroken = true }
        check(entries)
    }

    /// Checks the leases of a lock after a change of its key.
    func keyChanged(_ name: String) {
        check(entries(of: name))
    }

    /// Checks the leases of all locks whose names satisfy `isAffected`.
    func recheckLeases(where isAffected: (_ name: String) -> Bool = { _ in true }) {
        // Each lock is checked once, in the order of its first lease.
        var checked: Set<ExactText> = []
        for entry in entriesInOrder where checked.insert(ExactText(entry.name)).inserted && isAffected(entry.name) {
            check(entries(of: entry.name))
        }
    }

    /// Retries the renewals that Redis did not answer.
    func redisReconnected() {
        let now = runtime.time.now()
        for entry in entriesInOrder { scheduleNextStep(entry, now: now) }
    }

    // MARK: Steps

    private func scheduleNextStep(_ entry: Entry, now: Instant) {
        entry.nextStep?.cancel()
        var instant: Instant
        switch entry.lease.step(now: now) {
        case .over, .renew: instant = now
        case .wait(let until):
            instant = until
            // Rounded down, so that renewals that are due close together are sent in one write.
            let batchNanoseconds = HeldLease.batchMilliseconds * 1_000_000
            let remainingNanoseconds = until.nanoseconds - now.nanoseconds
            if entry.lease.isAutoRenewed, until < entry.lease.deadline, remainingNanoseconds > batchNanoseconds {
                instant = Instant(nanoseconds: until.nanoseconds / batchNanoseconds * batchNanoseconds)
            }
        }
        if !entry.isWatched, watch.reaches(runtime.keys.lock(entry.name)) {
            instant = min(instant, now.advanced(byMilliseconds: Self.watchAfterMilliseconds))
        }
        if let missingSince = entry.missingSince {
            instant = min(instant, missingSince.advanced(byMilliseconds: Self.breakMessageMilliseconds))
        }
        entry.nextStep = runtime.deadlines.schedule(at: instant) { [unowned self, unowned entry] in step(entry) }
    }

    private func step(_ entry: Entry) {
        let now = runtime.time.now()
        switch entry.lease.step(now: now) {
        case .over: return expire(entry)
        case .renew(let ttlMilliseconds): return renew(entry, ttlMilliseconds: ttlMilliseconds, now: now)
        case .wait:
            // A renewal that is due within this batch is sent with it.
            let batchEnd = now.advanced(byMilliseconds: HeldLease.batchMilliseconds)
            if case .renew(let ttlMilliseconds) = entry.lease.step(now: batchEnd) {
                return renew(entry, ttlMilliseconds: ttlMilliseconds, now: now)
            }
        }
        if let missingSince = entry.missingSince, now >= missingSince.advanced(byMilliseconds: Self.breakMessageMilliseconds) {
            return end(entry, .deleted)
        }
        if !entry.isWatched, watch.reaches(runtime.keys.lock(entry.name)) { check(entry) }
        scheduleNextStep(entry, now: now)
    }

    private func renew(_ entry: Entry, ttlMilliseconds: Int64, now: Instant) {
        entry.lease.renewalBegan()
        entry.isWatched = watch.reaches(runtime.keys.lock(entry.name))
        let keys = LockKeys(scripts: scripts, space: runtime.keys, name: entry.name)
        let script = RenewScript(
            keys: keys, token: entry.token, ttlMilliseconds: ttlMilliseconds,
            fence: entry.hasOwnerToken ? entry.fence : nil,
            isGroup: entry.group != nil, purpose: .watch)
        // A watched lease is renewed on the watching connection, so that Redis does not report this change. Redis does
        // report the repetition of the renewal for replicas.
        (entry.isWatched ? watch.pipeline : runtime.pipeline).send(script) { [self] result in
            guard isFollowed(entry) else { return }
            switch result {
            case .success(.held):
                entry.missingSince = nil
                return awaitReplication(script, of: entry, sentAt: now)
            case .success where entry.group == nil:
                entry.lease.renewalFailed(now: runtime.time.now())
                entry.isRenewalRejected = entry.hasOwnerToken
                // The lease is lost; the check determines the reason.
                check(entry)
            // The group no longer contains this lease.
            case .success: return end(entry, entry.isBroken ? .broken : .expired)
            case .failure: entry.lease.renewalFailed(now: runtime.time.now())
            }
            scheduleNextStep(entry, now: runtime.time.now())
        }
        scheduleNextStep(entry, now: now)
    }

    /// Waits for replicas after Redis has renewed the lease.
    private func awaitReplication(_ script: RenewScript, of entry: Entry, sentAt: Instant) {
        replicate?(script) { [self] outcome in
            guard isFollowed(entry) else { return }
            switch outcome {
            case .enough:
                entry.lease.renewalSucceeded(ttlMilliseconds: script.ttlMilliseconds, sentAt: sentAt)
                onRenewed?(entry.name, entry.token, entry.fence, entry.lease.deadline)
            // If the lease has ended, the next renewal determines the reason.
            case .tooFew, .lost: entry.lease.renewalFailed(now: runtime.time.now())
            }
            scheduleNextStep(entry, now: runtime.time.now())
        }
    }

    private func check(_ entry: Entry) {
        check([entry])
    }

    /// Checks leases of one lock with a single read of its key, and watches the key for the next change.
    private func check(_ entries: [Entry]) {
        guard let name = entries.first?.name else { return }
        for entry in entries { entry.isWatched = true }
        watch.value(of: runtime.keys.lock(name)) { [self] result in
            for entry in entries where isFollowed(entry) { handleCheck(of: entry, result) }
        }
    }

    private func handleCheck(of entry: Entry, _ result: Result<String?, RedisError>) {
        switch result {
        case .success(let value?) where holds(entry, value):
            guard !entry.isRenewalRejected else { return end(entry, .taken) }
            entry.isBroken = false
            entry.missingSince = nil
        case .success(let value):
            let now = runtime.time.now()
            let hasExpired = entry.lease.step(now: now) == .over
            guard !entry.isBroken, value == nil, !hasExpired else {
                return end(entry, entry.isBroken ? .broken : value != nil ? .taken : .expired)
            }
            entry.missingSince = entry.missingSince ?? now
            scheduleNextStep(entry, now: now)
        // The lease is checked again at its deadline, or when the watching connection is up again.
        case .failure: entry.isWatched = false
        }
    }

    /// Returns whether a value of the lock's key shows that the lease, or its group, holds the lock.
    private func holds(_ entry: Entry, _ value: String) -> Bool {
        ExactText(value) == ExactText(entry.group ?? entry.token)
    }

    /// Ends a lease that has expired by the local clock, unless its holder has renewed it through another sidecar. For
    /// a lease of a group, the lock's key cannot show such a renewal, so the lease ends.
    private func expire(_ entry: Entry) {
        guard !entry.lease.isAutoRenewed, entry.group == nil, !entry.isTTLRequested else { return end(entry, .expired) }
        entry.isTTLRequested = true
        let key = runtime.keys.lock(entry.name)
        let sentAt = runtime.time.now()
        watch.value(of: key) { [self] result in
            guard isFollowed(entry) else { return }
            guard case .success(let value?) = result, holds(entry, value) else { return end(entry, .expired) }
            watch.remainingTTL(of: key) { [self] result in
                guard isFollowed(entry) else { return }
                entry.isTTLRequested = false
                let now = runtime.time.now()
                // If the lease was not renewed, only the allowance for clock drift remains.
                guard case .success(.present(let ttlMilliseconds?)) = result,
                    ttlMilliseconds > LeaseValidity.driftMilliseconds(ofTTL: entry.lease.ttlMilliseconds)
                else {
                    return entry.lease.step(now: now) == .over ? end(entry, .expired) : scheduleNextStep(entry, now: now)
                }
                applyLongerTTL(ttlMilliseconds, to: entry, sentAt: sentAt)
            }
        }
    }

    /// Applies a TTL that is longer than expected, once enough replicas have it.
    private func applyLongerTTL(_ ttlMilliseconds: Int64, to entry: Entry, sentAt: Instant) {
        let keys = LockKeys(scripts: scripts, space: runtime.keys, name: entry.name)
        let fence = entry.hasOwnerToken ? entry.fence : nil
        let script = RenewScript(keys: keys, token: entry.token, ttlMilliseconds: ttlMilliseconds, fence: fence)
        replicate?(script) { [self] outcome in
            guard isFollowed(entry) else { return }
            let now = runtime.time.now()
            if case .enough = outcome {
                entry.lease.updateDeadline(
                    to: LeaseValidity.deadline(ttlMilliseconds: ttlMilliseconds, sentAt: sentAt), now: now)
                onRenewed?(entry.name, entry.token, entry.fence, entry.lease.deadline)
            }
            guard entry.lease.step(now: now) != .over else { return end(entry, .expired) }
            scheduleNextStep(entry, now: now)
        }
    }

    /// Stops following a lease and notifies its followers.
    /// - Parameter loss: the reason for the loss; `nil` after a release.
    private func end(_ entry: Entry, _ loss: LeaseLoss?) {
        let followers = entry.followers
        drop(entry)
        if let loss {
            lossCounters[loss]?.increment()
            onLost?(entry.name, entry.token, entry.fence)
        }
        for follower in followers {
            follower.onEnd(
                LeaseEnd(follower: LeaseFollower(id: follower.id), name: entry.name, token: entry.token, loss: loss))
        }
    }
}

internal import DequeModule
internal import InterlockCore

/// The leases that were granted through this sidecar, for gauges and for labels that tokens do not contain. The table
/// has a fixed capacity: leases beyond it are granted but not listed. The table also keeps the history of grants.
///
/// Another sidecar or an operator may end or renew a lease, so Redis is asked about each listed lease again: at least
/// every five seconds, or less often if there are many.
struct LeaseTable {
    /// The name and the token, hashed with this process's seed. Two leases whose hashes collide share an entry.
    private struct Key: Hashable {
        /// The hash of the name, with which a scan finds all leases of a lock. An index would make grants 5 % slower.
        let lock: Int
        let hash: Int

        init(name: String, token: String) {
            var hasher = Hasher()
            hasher.combine(ExactText(name))
            let nameHasher = hasher
            lock = nameHasher.finalize()
            hasher.combine(ExactText(token))
            hash = hasher.finalize()
        }

        static func == (left: Key, right: Key) -> Bool { left.hash == right.hash }

        func hash(into hasher: inout Hasher) { hasher.combine(hash) }

        static func lock(_ name: String) -> Int { Key(name: name, token: "").lock }
    }

    /// A grant on the list.
    struct ListedLease {
        let name: String
        let token: String
        let fence: Int64
        /// The deadline that the holder relied on when the review began.
        let deadline: Instant

        fileprivate init(_ entry: Entry, names: (name: String, token: String)) {
            (name, token) = names
            fence = entry.fence
            deadline = entry.deadline
        }
    }

    /// The state of a lease that a review finds.
    enum LeaseState {
        /// The grant no longer holds the lock.
        case ended
        /// The remaining time; `nil` for a lease that never expires.
        case remaining(milliseconds: Int64?)
    }

    fileprivate struct Entry {
        /// The label if the owner chose its token; `nil` otherwise, because other tokens begin with the label.
        var label: String?
        var deadline: Instant
        let fence: Int64
        let grant: GrantHistory.ID
        let grantedAt: Instant
    }

    /// A key in the order of grant.
    private struct OrderEntry {
        let key: Key
        /// The time until which grants keep the entry, even if its lease was shortened.
        var retainedUntil: Instant
    }

    private static let capacity = 20_000
    /// The minimum time between reviews of a lease, in milliseconds. The first review is due this long after the grant,
    /// and each later one after half of the remaining time or `maximumPauseMilliseconds`, whichever is shorter. A
    /// review is delayed while one ahead of it in the queue is not due, or if the sidecar cannot keep up.
    static let reviewMilliseconds: Int64 = 1000
    private static let maximumPauseMilliseconds: Int64 = 5000
    /// The maximum number of leases in one review.
    static let maximumReviewed = 200

    private(set) var history = GrantHistory()

    private var entries: [Key: Entry] = [:]
    /// The entries in order of grant. Each grant drops a few expired leases from the front.
    private var order: Deque<OrderEntry> = []
    /// The reviews, one for every entry. A review of an ended lease stays until it is first or the queue is full.
    private var reviews = ReviewQueue<Key>()
    /// The locks that were reported broken, by `Key.lock`. Their leases are read again immediately.
    private var suspects: Set<Int> = []
    /// Whether too many locks were reported broken to list them, so that every lease is read again.
    private var areAllSuspect = false
    private static let maximumSuspects = 1000

    /// Lists a grant.
    /// - Parameters:
    ///   - startedAt: the time of the holder's request.
    ///   - host: the label of an owner that gives no label.
    mutating func recordGrant(_ lease: Lease, to request: LockRequest, startedAt: Instant, now: Instant, host: String) {
        let label = request.owner == nil ? nil : request.label
        if dropLapsed(now: now) { _ = dropLapsed(now: now) }
        if reviews.count >= 2 * Self.capacity { dropEndedReviews() }
        let key = Key(name: lease.name, token: lease.token)
        let existing = entries[key]
        if let existing, existing.fence == lease.fence {
            // An owner that asks again may omit its label, and never gets an earlier deadline.
            let deadline = max(existing.deadline, lease.deadline)
            entries[key]?.deadline = deadline
            if let label { entries[key]?.label = label }
            return history.updateDeadline(existing.grant, until: deadline)
        }
        // A new grant to the same owner proves that the previous one has ended.
        if let existing { history.recordEnd(existing.grant, .lost, at: now) }
        let shownLabel = request.owner == nil ? nil : label ?? existing?.label ?? host
        let grant = history.recordGrant(
            lease, mode: lease.permits.map { .permits($0) } ?? request.mode, label: shownLabel,
            waitedNanoseconds: now.nanoseconds - startedAt.nanoseconds, now: now)
        let isListed = existing != nil || (entries.count < Self.capacity && order.count < 2 * Self.capacity)
        guard isListed else { return }
        let entry = Entry(
            label: shownLabel, deadline: lease.deadline, fence: lease.fence, grant: grant, grantedAt: now)
        entries[key] = entry
        if existing == nil { order.append(OrderEntry(key: key, retainedUntil: Self.end(of: entry))) }
        let firstReview = now.advanced(byMilliseconds: Self.reviewMilliseconds)
        reviews.append(key, grant: grant, at: firstReview, name: lease.name, token: lease.token)
    }

    /// Applies a new deadline.
    /// - Parameter fence: the fence of the renewed grant; `nil` for the token's current grant. The methods below have
    ///   the same parameter.
    mutating func recordRenewal(_ name: String, token: String, fence: Int64? = nil, deadline: Instant) {
        let key = Key(name: name, token: token)
        guard let entry = entries[key], fence ?? entry.fence == entry.fence else { return }
        entries[key]?.deadline = deadline
        history.updateDeadline(entry.grant, until: deadline)
    }

    /// Removes a lease that has ended.
    mutating func recordEnd(_ name: String, token: String, fence: Int64? = nil, _ end: GrantEnd, now: Instant) {
        let key = Key(name: name, token: token)
        guard let entry = entries[key], fence ?? entry.fence == entry.fence else { return }
        entries[key] = nil
        history.recordEnd(entry.grant, end, at: now)
    }

    /// Ends all leases that held the lock at `instant`. O(n) in leases; about 100 µs at capacity.
    mutating func recordBreak(_ name: String, at instant: Instant) {
        let lock = Key.lock(name)
        for key in entries.keys.filter({ $0.lock == lock }) where entries[key].map({ $0.grantedAt <= instant }) ?? false {
            entries[key] = nil
        }
        history.recordBreak(name, at: instant)
    }

    /// Applies an earlier deadline that the holder has chosen. Has no effect if the deadline is not earlier.
    mutating func shorten(_ name: String, token: String, fence: Int64? = nil, to deadline: Instant) {
        let key = Key(name: name, token: token)
        guard let entry = entries[key], fence ?? entry.fence == entry.fence, entry.deadline > deadline else { return }
        entries[key]?.deadline = deadline
        history.updateDeadline(entry.grant, until: deadline)
    }

    /// Returns the deadline that the holder relies on; `nil` if the lease is not listed.
    func deadline(of name: String, token: String) -> Instant? {
        entries[Key(name: name, token: token)]?.deadline
    }

    /// Returns the label of a lease whose owner chose the token; `nil` for other leases.
    func label(of name: String, token: String) -> String? {
        entries[Key(name: name, token: token)]?.label
    }

    var isEmpty: Bool { entries.isEmpty }

    /// Returns the number of leases that are still valid. O(n), for the gauge.
    mutating func count(now: Instant) -> Int {
        for key in entries.filter({ Self.end(of: $0.value) <= now }).keys { entries[key] = nil }
        order = Deque(order.filter { entries.index(forKey: $0.key) != nil })
        return entries.values.count(where: { $0.deadline > now })
    }

    /// Removes the first entry of the order if its lease has ended or expired. Returns whether it did.
    private mutating func dropLapsed(now: Instant) -> Bool {
        guard var oldest = order.first else { return false }
        if let index = entries.index(forKey: oldest.key) {
            if oldest.retainedUntil <= now { oldest.retainedUntil = Self.end(of: entries.values[index]) }
            guard oldest.retainedUntil <= now else {
                order[0] = oldest
                // Moved to the end, so that a long lease does not keep the shorter ones behind it listed.
                if order.count >= Self.capacity { order.append(order.removeFirst()) }
                return false
            }
            entries.remove(at: index)
        }
        order.removeFirst()
        return true
    }

    /// Returns the time to drop an entry: a little later than its deadline, because a review may find that the lease
    /// was renewed elsewhere.
    private static func end(of entry: Entry) -> Instant {
        entry.deadline.advanced(byMilliseconds: 2 * reviewMilliseconds)
    }

    // MARK: Reviews

    /// Drops the reviews of ended leases, which are at least half of a full queue. O(n).
    private mutating func dropEndedReviews() {
        let entries = entries
        reviews.keep { entries[$0.key]?.grant == $0.grant }
    }

    /// Marks the leases of a broken lock for review. Returns whether listed leases may belong to that lock.
    mutating func suspect(_ name: String) -> Bool {
        guard !entries.isEmpty else { return false }
        if suspects.count < Self.maximumSuspects { suspects.insert(Key.lock(name)) } else { areAllSuspect = true }
        return true
    }

    /// Returns the leases to review now. The leases of locks that were reported broken come first, in order of grant.
    /// - Parameter isFollowed: returns whether a lease has followers. Such a lease needs no review.
    mutating func due(now: Instant, isFollowed: (ListedLease) -> Bool) -> [ListedLease] {
        var due: [ListedLease] = []
        if !suspects.isEmpty {
            let suspected = reviews.filter {
                (areAllSuspect || suspects.contains($0.key.lock)) && entries[$0.key]?.grant == $0.grant
            }
            let oldestSuspected = suspected.sorted { $0.review.grant < $1.review.grant }.prefix(Self.maximumReviewed)
            due = oldestSuspected.compactMap { review, index in
                entries[review.key].map { ListedLease($0, names: reviews.names(of: review, at: index)) }
            }
            suspects = []
            areAllSuspect = false
        }
        let minimumPauseMilliseconds = Self.reviewMilliseconds * Int64(1 + entries.count / Self.maximumReviewed)
        while let review = reviews.first, review.at <= now, due.count < Self.maximumReviewed {
            guard let entry = entries[review.key], entry.grant == review.grant else {
                reviews.dropFirst()
                continue
            }
            let names = reviews.removeFirst()
            let listed = ListedLease(entry, names: names)
            if !isFollowed(listed) { due.append(listed) }
            let remainingMilliseconds = (entry.deadline.nanoseconds - now.nanoseconds) / 1_000_000
            let pauseMilliseconds = max(
                minimumPauseMilliseconds, min(Self.maximumPauseMilliseconds, remainingMilliseconds / 2))
            let nextReviewAt = now.advanced(byMilliseconds: pauseMilliseconds)
            reviews.append(review.key, grant: review.grant, at: nextReviewAt, name: names.name, token: names.token)
        }
        return due
    }

    /// Applies the state of a lease that Redis reported in reply to a request sent at `sentAt`.
    /// - Parameter isReplicated: whether enough replicas have the state, or replicas do not matter. If not, a later
    ///   deadline is ignored, because a failover may lose it.
    mutating func applyReview(
        _ lease: ListedLease, _ state: LeaseState, isReplicated: Bool = true, sentAt: Instant, now: Instant
    ) {
        let key = Key(name: lease.name, token: lease.token)
        guard let entry = entries[key], entry.fence == lease.fence, entry.grantedAt <= sentAt else { return }
        switch state {
        case .ended: recordEnd(lease.name, token: lease.token, fence: lease.fence, .lost, now: now)
        case .remaining(nil): break
        case .remaining(let milliseconds?):
            // In Redis, even an unchanged lease lasts slightly longer than its holder relies on it.
            let newDeadline = LeaseValidity.deadline(ttlMilliseconds: milliseconds, sentAt: sentAt)
            let slackMilliseconds = Self.slackMilliseconds + milliseconds / 50
            let isLonger =
                isReplicated && newDeadline > entry.deadline.advanced(byMilliseconds: slackMilliseconds)
            // A deadline that changed after the review was sent is newer than the review.
            let isShorter =
                entry.deadline == lease.deadline
                && newDeadline.advanced(byMilliseconds: slackMilliseconds) < entry.deadline
            guard isLonger || isShorter else { return }
            recordRenewal(lease.name, token: lease.token, fence: lease.fence, deadline: newDeadline)
        }
    }

    private static let slackMilliseconds: Int64 = 100
}

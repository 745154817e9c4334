internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// One session of a data plane: the usage that it reports for its buckets, and its assignments. Confined to the
/// coordinator's event loop.
package final class QuotaSession {
    private struct Bucket {
        var demand = QuotaDemand()
        var reportedAt: Instant?
        /// The time covered by `requestCount`, in milliseconds; 0 if there was no earlier report.
        var elapsedMilliseconds: Int64 = 0
        var requestCount: Int64 = 0
        var lastUsedAt: Instant
        var hasQuota = false
        var isScheduled = false
        /// The bytes of the bucket's keys and values.
        var bytes = 0
        /// The time until which Redis may have the bucket's key.
        var retainedUntil = Instant(nanoseconds: .min)
    }

    private static let maximumBatchSize = 100
    /// The maximum number of requests in a report, beyond any plausible value.
    private static let maximumRequests: Int64 = 1 << 40
    private static let maximumBatches = 2
    /// The time without requests after which a bucket is forgotten.
    private static let idleLifetimeMilliseconds: Int64 = 300_000

    private let coordinator: QuotaCoordinator
    let origin: QuotaCoordinator.Origin
    let client: String
    let dataPlane: String
    private let send: ([QuotaAction.Assignment]) -> Void
    private var buckets: [[DescriptorEntry]: Bucket] = [:]
    private var scheduled: [[DescriptorEntry]] = []
    private var batchesInFlight = 0
    private var sweptAt = Instant(nanoseconds: 0)
    private var isFlushScheduled = false
    private var hasEnded = false

    init(
        _ coordinator: QuotaCoordinator, _ origin: QuotaCoordinator.Origin, client: String, dataPlane: String,
        send: @escaping ([QuotaAction.Assignment]) -> Void
    ) {
        self.coordinator = coordinator
        self.origin = origin
        self.client = client
        self.dataPlane = dataPlane
        self.send = send
    }

    private var domain: String { origin.domain }
    var bucketCount: Int { buckets.count }

    /// Records a data plane's usage report, and schedules new assignments.
    package func report(_ usages: [QuotaUsage]) {
        guard !hasEnded else { return }
        let now = coordinator.runtime.time.now()
        if sweptAt.advanced(byMilliseconds: Self.idleLifetimeMilliseconds / 10) <= now {
            sweptAt = now
            let idleSince = now.advanced(byMilliseconds: -Self.idleLifetimeMilliseconds)
            for (bucketID, bucket) in buckets where !bucket.isScheduled && bucket.reportedAt ?? now <= idleSince {
                drop(bucketID, now: now)
            }
        }
        var unlimitedAssignments: [QuotaAction.Assignment] = []
        for usage in usages {
            let bucketID = usage.bucket.sorted { $0.key < $1.key }
            guard coordinator.domains.match(unordered: bucketID, in: domain) != nil else {
                unlimitedAssignments.append((bucketID, .allow))
                drop(bucketID, now: now)
                continue
            }
            guard var bucket = buckets[bucketID] ?? newBucket(bucketID, now: now) else {
                coordinator.unassigned.increment()
                continue
            }
            if let lastReportAt = bucket.reportedAt {
                bucket.elapsedMilliseconds += now.millisecondsRoundedUp(since: lastReportAt)
            }
            bucket.requestCount = min(
                Self.maximumRequests, bucket.requestCount + min(Self.maximumRequests, usage.requestCount))
            bucket.reportedAt = now
            if usage.requestCount > 0 { bucket.lastUsedAt = now }
            if !bucket.isScheduled { scheduled.append(bucketID) }
            bucket.isScheduled = true
            buckets[bucketID] = bucket
        }
        if !unlimitedAssignments.isEmpty { send(unlimitedAssignments) }
        scheduleFlush()
    }

    /// Returns a new bucket; `nil` if there is no room for it.
    private func newBucket(_ bucketID: [DescriptorEntry], now: Instant) -> Bucket? {
        let bytes = bucketID.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        let budgetBucket = budgetBucket(for: bucketID)
        guard let retainedUntil = coordinator.budget.take(budgetBucket, bytes: bytes, of: client, now: now) else { return nil }
        var bucket = Bucket(lastUsedAt: now)
        bucket.bytes = bytes
        bucket.retainedUntil = retainedUntil
        return bucket
    }

    private func drop(_ bucketID: [DescriptorEntry], now: Instant) {
        guard let bucket = buckets.removeValue(forKey: bucketID) else { return }
        returnBucket(bucketID, bucket, now: now)
    }

    private func returnBucket(_ bucketID: [DescriptorEntry], _ bucket: Bucket, now: Instant) {
        coordinator.budget.returnBucket(
            budgetBucket(for: bucketID), bytes: bucket.bytes, of: client, until: bucket.retainedUntil, now: now)
    }

    private func budgetBucket(for bucketID: [DescriptorEntry]) -> QuotaBudget.Bucket {
        QuotaBudget.Bucket(dataPlane: dataPlane, digest: bucketID.hashValue)
    }

    /// Ends the session when its stream has closed.
    package func end() {
        guard !hasEnded else { return }
        hasEnded = true
        let now = coordinator.runtime.time.now()
        for (bucketID, bucket) in buckets { returnBucket(bucketID, bucket, now: now) }
        buckets = [:]
        scheduled = []
        coordinator.sessionEnded(self)
    }

    private func scheduleFlush() {
        guard !isFlushScheduled, !scheduled.isEmpty, batchesInFlight < Self.maximumBatches else { return }
        isFlushScheduled = true
        coordinator.runtime.eventLoop.assumeIsolated().execute { [self] in
            isFlushScheduled = false
            flush()
        }
    }

    private func flush() {
        guard !hasEnded else { return }
        let bucketIDs = scheduled.prefix(Self.maximumBatchSize)
        scheduled.removeFirst(bucketIDs.count)
        let now = coordinator.runtime.time.now()
        var localAssignments: [QuotaAction.Assignment] = []
        var requestedIDs: [[DescriptorEntry]] = []
        var batch: [QuotaScript.Bucket] = []
        for bucketID in bucketIDs {
            if let action = localAction(for: bucketID, now: now) {
                localAssignments.append((bucketID, action))
            } else if let request = quotaRequest(for: bucketID, now: now) {
                requestedIDs.append(bucketID)
                batch.append(request)
            }
        }
        if !localAssignments.isEmpty { send(localAssignments) }
        if !batch.isEmpty { send(batch, of: requestedIDs, at: now) }
        scheduleFlush()
    }

    /// Returns the action if it does not depend on Redis; otherwise `nil`.
    private func localAction(for bucketID: [DescriptorEntry], now: Instant) -> QuotaAction? {
        guard let bucket = buckets[bucketID] else { return nil }
        buckets[bucketID]?.isScheduled = false
        if bucket.lastUsedAt.advanced(byMilliseconds: Self.idleLifetimeMilliseconds) <= now {
            drop(bucketID, now: now)
            return .abandon
        }
        guard let match = coordinator.domains.match(unordered: bucketID, in: domain) else { return .allow }
        switch match.rule.rule.limit {
        case .rate: return nil
        case .blocked: return .deny
        case .unlimited, nil: return .allow
        }
    }

    private func quotaRequest(for bucketID: [DescriptorEntry], now: Instant) -> QuotaScript.Bucket? {
        guard var bucket = buckets[bucketID], let match = coordinator.domains.match(unordered: bucketID, in: domain),
            case .rate(let limit, _)? = match.rule.rule.limit
        else { return nil }
        let rate = QuotaRate(limit)
        bucket.demand.report(requests: bucket.requestCount, overMilliseconds: bucket.elapsedMilliseconds, of: rate)
        (bucket.requestCount, bucket.elapsedMilliseconds) = (0, 0)
        // Redis keeps the quota from the moment at which it runs the script, which may be late.
        bucket.retainedUntil = now.advanced(
            byMilliseconds: QuotaCoordinator.retentionMilliseconds + QuotaCoordinator.assignmentTimeoutMilliseconds)
        buckets[bucketID] = bucket
        var fullName = CounterName()
        for entry in bucketID { fullName.append(key: entry.key, value: entry.value) }
        // If several buckets share a counter, this data plane has a separate quota for each.
        return QuotaScript.Bucket(
            name: match.counter, keySuffix: ":" + limit.name,
            dataPlaneName: dataPlane + "/" + TextDigest.of(fullName.text),
            rate: rate, demand: bucket.demand.tokens(of: rate))
    }

    private func send(_ batch: [QuotaScript.Bucket], of bucketIDs: [[DescriptorEntry]], at sentAt: Instant) {
        guard coordinator.runtime.pipeline.isUp else { return answerWithoutRedis(bucketIDs) }
        batchesInFlight += 1
        let script = QuotaScript(
            keys: coordinator.runtime.keys, domain: domain, retentionMilliseconds: QuotaCoordinator.retentionMilliseconds,
            maximumDataPlanes: QuotaCoordinator.maximumDataPlanes, buckets: batch)
        coordinator.runtime.pipeline.send(script) { [self] result in
            batchesInFlight -= 1
            scheduleFlush()
            guard !hasEnded else { return }
            switch result {
            case .success(let quotas):
                let elapsedMilliseconds = coordinator.runtime.time.now().millisecondsRoundedUp(since: sentAt)
                // The data plane would use a late quota after Redis has stopped counting it.
                let isInTime = elapsedMilliseconds < QuotaCoordinator.assignmentTimeoutMilliseconds / 2
                if isInTime { answer(bucketIDs, batch, quotas) } else { leaveUnassigned(bucketIDs) }
            case .failure(let error):
                if error.isUnavailability { answerWithoutRedis(bucketIDs) } else { leaveUnassigned(bucketIDs) }
            }
        }
    }

    private func answer(_ bucketIDs: [[DescriptorEntry]], _ batch: [QuotaScript.Bucket], _ quotas: [Int64]) {
        var actions: [QuotaAction.Assignment] = []
        for (index, bucketID) in bucketIDs.enumerated() {
            guard let bucket = buckets[bucketID] else { continue }
            if quotas[index] > 0 {
                buckets[bucketID]?.hasQuota = true
                actions.append((bucketID, .quota(quotas[index], of: batch[index].rate)))
            } else {
                coordinator.unassigned.increment()
                // An assignment from another stream may still apply until it expires.
                if bucket.hasQuota { actions.append((bucketID, .deny)) }
            }
        }
        if !actions.isEmpty { send(actions) }
    }

    /// Answers according to the domain's policy while Redis is unreachable. The demand of other data planes is unknown
    /// then, and earlier assignments last until they expire.
    private func answerWithoutRedis(_ bucketIDs: [[DescriptorEntry]]) {
        switch coordinator.domains.policy(of: domain) {
        case .allow: send(bucketIDs.map { ($0, .allow) })
        case .deny: send(bucketIDs.map { ($0, .deny) })
        case .local, nil: leaveUnassigned(bucketIDs)
        }
    }

    /// Counts buckets that get no assignment. Earlier assignments last until they expire, and the data plane reports
    /// again.
    private func leaveUnassigned(_ bucketIDs: [[DescriptorEntry]]) { coordinator.unassigned.increment(by: bucketIDs.count) }
}

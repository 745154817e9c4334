internal import InterlockCore
internal import Logging
internal import RedisClient

/// Reviews leases, so that this sidecar's lease count and grant history reflect changes by other sidecars and
/// operators.
protocol LeaseReviewer: AnyObject {
    var runtime: CoordinatorRuntime { get }
    var leases: LeaseTable { get }
    /// The timer of the next review of listed leases; `nil` while no lease is listed.
    var nextReview: Deadlines.Entry? { get set }

    /// Asks Redis about the leases that are due.
    func review()
}

extension LeaseReviewer {
    /// Schedules the next review after a lease was listed.
    func scheduleReview() {
        guard nextReview == nil else { return }
        scheduleReview(at: runtime.time.now().advanced(byMilliseconds: LeaseTable.reviewMilliseconds))
    }

    /// Schedules a review at the end of this tick. It then covers all reports of the tick.
    func reviewSoon() {
        nextReview?.cancel()
        scheduleReview(at: runtime.time.now())
    }

    private func scheduleReview(at instant: Instant) {
        nextReview = runtime.deadlines.schedule(at: instant) { [unowned self] in
            nextReview = nil
            review()
            if !leases.isEmpty { scheduleReview() }
        }
    }
}

extension LockCoordinator: LeaseReviewer {
    /// Records that another sidecar reports a broken lock. The lock may have been granted again, so a review reads its
    /// state from Redis.
    func lockBroken(_ name: String) {
        followedLeases.lockBroken(name)
        if leases.suspect(name) { reviewSoon() }
    }

    func review() {
        let sentAt = runtime.time.now()
        let due = leases.due(now: sentAt) { followedLeases.follows($0.name, token: $0.token) }
        let batchSize = runtime.keys.isOnCluster ? 1 : Self.maximumLocksPerCommand
        for start in stride(from: 0, to: due.count, by: batchSize) {
            let grants = due[start..<min(start + batchSize, due.count)].map { (keys: keys($0.name), lease: $0) }
            runtime.pipeline.send(LeaseStateScript(grants: grants)) { [self] result in
                // After a failure, the next review tries again.
                guard case .success(let states) = result else { return }
                let now = runtime.time.now()
                for (grant, state) in zip(grants, states) {
                    leases.applyReview(
                        grant.lease, state, isReplicated: settings.waitReplicas == 0, sentAt: sentAt, now: now)
                }
            }
        }
    }

    /// Logs that a semaphore has another size than requested, once for each lock and size. A semaphore keeps its size
    /// while any lease of it is held, and the answer to the call does not report the difference.
    func logSizeMismatch(_ requestedSlots: Int, slots: Int, of name: String) {
        guard requestedSlots != slots else { return }
        if loggedSizeMismatches.count >= Self.maximumLoggedMismatches { loggedSizeMismatches = [] }
        guard loggedSizeMismatches.insert("\(requestedSlots) \(name)").inserted else { return }
        runtime.logger.log(.lockPermitsDiffer, ["lock": name, "asked": "\(requestedSlots)", "permits": "\(slots)"])
    }

    private static let maximumLoggedMismatches = 1000
}

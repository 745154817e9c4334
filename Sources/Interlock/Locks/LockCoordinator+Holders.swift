internal import CoreMetrics
internal import InterlockCore
internal import Logging
internal import RedisClient

/// The operations of holders and operators on a held lock.
extension LockCoordinator {
    func renew(
        name: ResourceName, token: String, ttlMilliseconds: Int64, fence: Int64?, completion: Completion<RenewResult>
    ) {
        if let violation = settings.violation(in: LockRequest(name: name, ttlMilliseconds: ttlMilliseconds)) {
            completion(.failed(violation))
            return
        }
        guard !LockMode.isReserved(token: token) else {
            completion(.lost)
            return
        }
        let sentAt = runtime.time.now()
        var script = RenewScript(keys: keys(name.text), token: token, ttlMilliseconds: ttlMilliseconds, fence: fence)
        runtime.pipeline.send(script) { [self] result in
            guard case .success(.heldByGroup) = result else {
                return renewalAnswered(result, script, name.text, sentAt: sentAt, completion)
            }
            script.isGroup = true
            runtime.pipeline.send(script) { [self] result in
                renewalAnswered(result, script, name.text, sentAt: sentAt, completion)
            }
        }
    }

    private func renewalAnswered(
        _ result: Result<TokenState, RedisError>, _ script: RenewScript, _ name: String, sentAt: Instant,
        _ completion: Completion<RenewResult>
    ) {
        switch result {
        case .success(.held):
            replicate(script) { [self] outcome in
                confirmRenewal(script, of: name, sentAt: sentAt, outcome, completion)
            }
        case .success(.lost), .success(.heldByGroup):
            leases.recordEnd(name, token: script.token, fence: script.fence, .lost, now: runtime.time.now())
            completion(.lost)
        case .failure(let error):
            if error.isOutcomeUnknown { shortenLease(of: name, script, sentAt: sentAt) }
            completion(.failed(InterlockError(error)))
        }
    }

    /// Calls `completion` with the time for which the holder can rely on the renewed lease.
    private func confirmRenewal(
        _ script: RenewScript, of name: String, sentAt: Instant, _ outcome: ReplicationOutcome,
        _ completion: Completion<RenewResult>
    ) {
        let (ttlMilliseconds, token, fence) = (script.ttlMilliseconds, script.token, script.fence)
        let now = runtime.time.now()
        let deadline = LeaseValidity.deadline(ttlMilliseconds: ttlMilliseconds, sentAt: sentAt)
        switch outcome {
        case .enough where deadline > now:
            leases.recordRenewal(name, token: token, fence: fence, deadline: deadline)
            followedLeases.updateDeadline(name, token: token, fence: fence, to: deadline)
            completion(
                .renewed(
                    validMilliseconds: LeaseValidity.remainingMilliseconds(
                        ttlMilliseconds: ttlMilliseconds, sentAt: sentAt, now: now)))
        case .enough, .lost:
            leases.recordEnd(name, token: token, fence: fence, .lost, now: now)
            completion(.lost)
        case .tooFew(let error):
            // Redis has the new deadline, and enough replicas have the previous one, so the earlier one is valid.
            shortenLease(of: name, script, sentAt: sentAt)
            guard let earlier = leases.deadline(of: name, token: token), earlier > now else {
                completion(.failed(error))
                return
            }
            completion(.renewed(validMilliseconds: (earlier.nanoseconds - now.nanoseconds) / 1_000_000))
        }
    }

    /// Applies the deadline of a renewal if it is earlier than the known one, because Redis has it or may have it.
    private func shortenLease(of name: String, _ script: RenewScript, sentAt: Instant) {
        let deadline = LeaseValidity.deadline(ttlMilliseconds: script.ttlMilliseconds, sentAt: sentAt)
        leases.shorten(name, token: script.token, fence: script.fence, to: deadline)
        followedLeases.leaseShortened(name, token: script.token, fence: script.fence, to: deadline)
    }

    func release(name: ResourceName, token: String, fence: Int64?, completion: Completion<ReleaseResult>) {
        guard !LockMode.isReserved(token: token) else {
            completion(.lost)
            return
        }
        // The sidecar stops renewing the lease, even if the release fails.
        followedLeases.leaseReleased(name.text, token: token, fence: fence)
        passOn(name.text, token: token, fence: fence, over: runtime.pipeline) { [self] result in
            switch result {
            case .success(let isReleased):
                runtime.metrics.countRelease(isReleased)
                leases.recordEnd(
                    name.text, token: token, fence: fence, isReleased ? .released : .lost, now: runtime.time.now())
                // A client may pipeline the acquire and the release of a lease. The following then begins only after
                // the first notification above.
                if isReleased { followedLeases.leaseReleased(name.text, token: token, fence: fence) }
                completion(isReleased ? .released : .lost)
            case .failure(let error):
                completion(.failed(InterlockError(error)))
            }
        }
    }

    func breakLock(name: ResourceName, by: String, fence: Int64?, completion: Completion<ReleaseResult>) {
        let script = BreakScript(keys: keys(name.text), by: by, fence: fence, origin: runtime.id, database: runtime.database)
        let sentAt = runtime.time.now()
        runtime.pipeline.send(script) { [self] result in
            switch result {
            case .success(let isBroken):
                if isBroken {
                    runtime.logger.log(.lockBroken, ["lock": "\(name)", "by": by])
                    leases.recordBreak(name.text, at: sentAt)
                    // Redis may report the deletion long before the event that gives the reason arrives.
                    followedLeases.lockBroken(name.text)
                    wake(name.text)
                }
                completion(isBroken ? .released : .lost)
            case .failure(let error):
                completion(.failed(InterlockError(error)))
            }
        }
    }
}

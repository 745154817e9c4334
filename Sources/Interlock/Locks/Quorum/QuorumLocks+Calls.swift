internal import CoreMetrics
internal import InterlockCore
internal import Logging
internal import RedisClient

extension QuorumLocks: LeaseReviewer {
    // MARK: Renew, release, break

    /// Renews a lease on all servers, of which a majority must still have it. Restores it on servers that have lost it.
    func renew(
        name: ResourceName, token: String, ttlMilliseconds: Int64, fence: Int64?, completion: Completion<RenewResult>
    ) {
        if let violation = settings.violation(in: LockRequest(name: name, ttlMilliseconds: ttlMilliseconds)) {
            completion(.failed(violation))
            return
        }
        let sentAt = runtime.time.now()
        let lease = QuorumRenewalAttempt.Lease(
            name: name.text, token: token, ttlMilliseconds: ttlMilliseconds, fence: fence)
        QuorumRenewalAttempt(lease, servers: servers, scripts: scripts, runtime: runtime) { [self] outcome in
            switch outcome {
            case .renewed(let validMilliseconds):
                leases.recordRenewal(
                    name.text, token: token, fence: fence,
                    deadline: LeaseValidity.deadline(ttlMilliseconds: ttlMilliseconds, sentAt: sentAt))
                completion(.renewed(validMilliseconds: validMilliseconds))
            case .tooLate:
                completion(.lost)
            case .lost:
                leases.recordEnd(name.text, token: token, fence: fence, .lost, now: runtime.time.now())
                completion(.lost)
            case .unavailable(let error):
                completion(.failed(error))
            }
        }.start()
    }

    /// Releases a lease on all servers. The lease ends when a majority has released it. On servers that do not answer,
    /// it expires.
    func release(name: ResourceName, token: String, fence: Int64?, completion: Completion<ReleaseResult>) {
        let script = QuorumReleaseScript(
            keys: runtime.keys, name: name.text, token: token, only: fence.map { .recorded(fence: $0) })
        servers.poll(script, withinMilliseconds: runtime.timeoutMilliseconds) { [self] verdict, answers in
            switch verdict {
            case .yes, .no:
                let isReleased = verdict == .yes
                runtime.metrics.countRelease(isReleased)
                leases.recordEnd(
                    name.text, token: token, fence: fence, isReleased ? .released : .lost, now: runtime.time.now())
                completion(isReleased ? .released : .lost)
                if isReleased { wake(name.text) }
            case .open, .unknown:
                completion(.failed(servers.unavailable(answers)))
            }
        }
    }

    /// Breaks a lock on all servers that answer, which must be a majority.
    func breakLock(name: ResourceName, by: String, fence: Int64?, completion: Completion<ReleaseResult>) {
        guard let fence else { return breakLock(name: name, from: nil, by: by, completion: completion) }
        let script = QuorumInspectScript(keys: runtime.keys, name: name.text)
        servers.ask(script, withinMilliseconds: runtime.timeoutMilliseconds) { [self] answers in
            let replies = answers.compactMap { try? $0?.get() }
            let holderReplies =
                Dictionary(grouping: replies.filter { $0.token != nil }, by: \.token)
                .values.max { $0.count < $1.count } ?? []
            let unansweredCount = servers.count - replies.count
            if holderReplies.count >= servers.majority, holderReplies.contains(where: { $0.number == fence }) {
                breakLock(name: name, from: holderReplies[0].token, by: by, completion: completion)
            } else if holderReplies.count < servers.majority,
                holderReplies.count + unansweredCount >= servers.majority
            {
                completion(.failed(servers.unavailable(answers)))
            } else {
                completion(.lost)
            }
        }
    }

    private func breakLock(name: ResourceName, from token: String?, by: String, completion: Completion<ReleaseResult>) {
        let script = QuorumBreakScript(keys: runtime.keys, name: name.text, token: token)
        let sentAt = runtime.time.now()
        servers.ask(script, withinMilliseconds: runtime.timeoutMilliseconds) { [self] answers in
            let replies = answers.compactMap { try? $0?.get() }
            let brokenAtMilliseconds = replies.filter { $0 > 0 }.max()
            if let brokenAtMilliseconds {
                runtime.logger.log(.lockBroken, ["lock": "\(name)", "by": by])
                leases.recordBreak(name.text, at: sentAt)
                publishBreak(of: name.text, by: by, atMilliseconds: brokenAtMilliseconds)
            }
            if replies.count < servers.majority {
                completion(.failed(servers.unavailable(answers)))
            } else {
                completion(brokenAtMilliseconds == nil ? .lost : .released)
            }
            if brokenAtMilliseconds != nil { wake(name.text) }
        }
    }

    /// Publishes the event on the Redis that the fleet shares.
    private func publishBreak(of name: String, by: String, atMilliseconds milliseconds: Int64) {
        let event = LockEvent.broken(name, by: by, origin: runtime.id, database: runtime.database)
        let message = event.start + "\(milliseconds)" + event.end
        runtime.pipeline.send(PublishMessage(channel: runtime.keys.events, message: message)) { _ in }
    }

    // MARK: Reviews

    func lockBroken(_ name: String) {
        if leases.suspect(name) { reviewSoon() }
    }

    func review() {
        let sentAt = runtime.time.now()
        for lease in leases.due(now: sentAt, isFollowed: { _ in false }) {
            let script = QuorumInspectScript(keys: runtime.keys, name: lease.name)
            servers.ask(script, withinMilliseconds: runtime.timeoutMilliseconds) { [self] answers in
                let replies = answers.compactMap { try? $0?.get() }
                guard let leaseState = leaseState(of: lease, replies) else { return }
                leases.applyReview(lease, leaseState, sentAt: sentAt, now: runtime.time.now())
            }
        }
    }

    /// Returns the state of a lease on a majority of the servers; `nil` if too few servers answered.
    private func leaseState(of lease: LeaseTable.ListedLease, _ replies: [QuorumInspectScript.Reply]) -> LeaseTable.LeaseState? {
        let holderReplies = replies.filter { $0.token.map { ExactText($0) == ExactText(lease.token) } ?? false }
        guard holderReplies.count < servers.majority else {
            // If every server has another number, the same owner has a later lease.
            guard holderReplies.contains(where: { $0.number ?? lease.fence == lease.fence }) else { return .ended }
            let milliseconds = millisecondsUntilEnd(of: holderReplies)
            return .remaining(milliseconds: milliseconds == .max ? nil : milliseconds)
        }
        // Servers that did not answer may have the lease.
        return holderReplies.count + servers.count - replies.count < servers.majority ? .ended : nil
    }

    /// Returns the time until fewer than a majority of the servers have the key; the maximum of `Int64` if that never
    /// happens, because keys have no expiry.
    private func millisecondsUntilEnd(of holderReplies: [QuorumInspectScript.Reply]) -> Int64 {
        holderReplies.map { $0.ttlMilliseconds < 0 ? Int64.max : $0.ttlMilliseconds }.sorted(by: >)[
            servers.majority - 1]
    }

    // MARK: Inspection

    /// Calls `completion` with the state that a majority of the servers reports.
    func inspect(name: ResourceName, completion: Completion<Result<LockInformation?, InterlockError>>) {
        let script = QuorumInspectScript(keys: runtime.keys, name: name.text)
        servers.ask(script, withinMilliseconds: runtime.timeoutMilliseconds) { [self] answers in
            let replies = answers.compactMap { try? $0?.get() }
            guard replies.count >= servers.majority else {
                completion(.failure(servers.unavailable(answers)))
                return
            }
            completion(.success(information(on: name.text, replies)))
        }
    }

    func inspect(names: [ResourceName], completion: @escaping (Result<[LockInformation?], InterlockError>) -> Void) {
        var states = [LockInformation?](repeating: nil, count: names.count)
        var failure: InterlockError?
        var unansweredCount = names.count
        guard unansweredCount > 0 else { return completion(.success([])) }
        for (index, name) in names.enumerated() {
            inspect(
                name: name,
                completion: Completion { _, result in
                    switch result {
                    case .success(let lock): states[index] = lock
                    case .failure(let error): failure = failure ?? error
                    }
                    unansweredCount -= 1
                    if unansweredCount == 0 { completion(failure.map { .failure($0) } ?? .success(states)) }
                    return true
                })
        }
    }

    private func information(on name: String, _ replies: [QuorumInspectScript.Reply]) -> LockInformation? {
        let waiters = waiterCount(for: name)
        // This sidecar does not know the waiters of other sidecars.
        let queue = waiters > 0 ? [WaitingSidecar(id: runtime.id, waiters: waiters)] : []
        let holders = Dictionary(grouping: replies, by: \.token)
        let holder = holders.first { $0.key != nil && $0.value.count >= servers.majority }
        guard let holder, let token = holder.key else {
            guard waiters > 0 else { return nil }
            return LockInformation(
                name: name, label: nil, fence: fence(replies), ttlMilliseconds: 0, mode: nil, holders: 0, leases: [],
                waiters: waiters, queue: queue)
        }
        let ttlMilliseconds = millisecondsUntilEnd(of: holder.value)
        let lease = LeaseInformation(
            label: leases.label(of: name, token: token) ?? OwnerToken.label(of: token), fence: fence(holder.value),
            ttlMilliseconds: ttlMilliseconds == .max ? -1 : ttlMilliseconds)
        return LockInformation(
            name: name, label: lease.label, fence: lease.fence, ttlMilliseconds: lease.ttlMilliseconds, mode: .exclusive,
            holders: 1, leases: [lease], waiters: waiters, queue: queue)
    }

    /// Returns the fence that a majority has recorded, or else the highest recorded one.
    private func fence(_ replies: [QuorumInspectScript.Reply]) -> Int64? {
        let numbers = replies.compactMap(\.number)
        return QuorumRound.agreedFence(among: numbers, servers: servers.count)
            ?? numbers.filter(QuorumRound.isRecorded).max()
    }

    /// Lists the held locks of one `SCAN` step on the first connected server. The list may contain locks without a
    /// majority and miss others. The cursor identifies the server. If that server goes down, the caller must start
    /// again.
    func list(cursor: String, glob: String, count: Int, completion: Completion<Result<LockPage, InterlockError>>) {
        guard let position = ScanCursor(cursor, servers: servers.count) else {
            completion(.failure(InterlockError(.invalid, "the cursor must be 0 or the one that the previous page returned")))
            return
        }
        let scan = Scan(
            cursor: position.cursor, pattern: runtime.keys.lockPattern(matching: glob), count: count, type: "string")
        let startedOn = cursor == "0" ? nil : position.server
        servers.scan(scan, on: startedOn) { [self, serverCount = servers.count] server, result in
            switch result {
            case .success(let (next, keys)):
                let following = ScanCursor(server: server, servers: serverCount).following(next, isLast: true)
                completion(
                    .success(
                        LockPage(cursor: "\(following)", names: keys.compactMap { runtime.keys.lockName(ofKey: $0) })))
            case .failure(let error):
                completion(.failure(InterlockError(error)))
            }
        }
    }
}

internal import CoreMetrics
internal import Hiredis
internal import InterlockCore
internal import Logging

/// What holders and operators ask of a lock that is held.
extension LockCoordinator {
    func renew(name: ResourceName, token: String, ttl: Int64, completion: Completion<RenewAnswer>) {
        if let wrong = settings.violation(in: LockRequest(name: name, ttl: ttl)) {
            completion(.failed(wrong))
            return
        }
        guard !LockMode.isReserved(token: token) else {
            completion(.lost)
            return
        }
        let sentAt = runtime.time.now()
        // Whatever comes of it: nothing beyond a shorter lease is promised any more that only replicas could keep.
        if settings.waitReplicas > 0 {
            leases.shortened(name.text, token: token, to: LeaseValidity.deadline(ttl: ttl, sentAt: sentAt))
        }
        var script = RenewScript(keys: keys(name.text), token: token, ttl: ttl)
        runtime.pipeline.run(script) { [self] result in
            guard case .success(.perhapsInGroup) = result else {
                return renewed(result, script, name.text, sentAt: sentAt, completion)
            }
            script.isGroup = true
            runtime.pipeline.run(script) { [self] result in
                renewed(result, script, name.text, sentAt: sentAt, completion)
            }
        }
    }

    private func renewed(
        _ result: Result<TokenStanding, RedisError>, _ script: RenewScript, _ name: String, sentAt: Instant,
        _ completion: Completion<RenewAnswer>
    ) {
        switch result {
        case .success(.holds):
            replicate(script) { [self] replicated in
                promise(script.ttl, of: name, token: script.token, sentAt: sentAt, replicated, completion)
            }
        case .success(.lost), .success(.perhapsInGroup):
            leases.ended(name, token: script.token)
            completion(.lost)
        case .failure(let error):
            completion(.failed(InterlockError(error)))
        }
    }

    /// Redis has extended a lease: its holder is told for how long to rely on it.
    private func promise(
        _ ttl: Int64, of name: String, token: String, sentAt: Instant, _ replicated: Replicated,
        _ completion: Completion<RenewAnswer>
    ) {
        let now = runtime.time.now()
        let deadline = LeaseValidity.deadline(ttl: ttl, sentAt: sentAt)
        switch replicated {
        case .enough where deadline > now:
            leases.renewed(name, token: token, deadline: deadline)
            keeper.moved(name, token: token, to: deadline)
            completion(.renewed(validMilliseconds: LeaseValidity.remaining(ttl: ttl, sentAt: sentAt, now: now)))
        case .enough, .lost:
            leases.ended(name, token: token)
            completion(.lost)
        case .tooFew(let error):
            // What was promised before is at replicas, and stands.
            guard let promised = leases.deadline(of: name, token: token), promised > now else {
                completion(.failed(error))
                return
            }
            // Its holder has made it shorter.
            if promised <= deadline { keeper.shortened(name, token: token, to: promised) }
            completion(.renewed(validMilliseconds: (promised.nanoseconds - now.nanoseconds) / 1_000_000))
        }
    }

    func release(name: ResourceName, token: String, completion: Completion<ReleaseAnswer>) {
        guard !LockMode.isReserved(token: token) else {
            completion(.lost)
            return
        }
        // Whatever comes of the release: from here on nobody extends the lease.
        keeper.released(name.text, token: token)
        passOn(name.text, token: token, over: runtime.pipeline) { [self] result in
            switch result {
            case .success(let isReleased):
                (isReleased ? runtime.metrics.locksReleased : runtime.metrics.releasesLost).increment()
                leases.ended(name.text, token: token)
                // A client may release in the same breath as it acquires: then the lease is followed only after that began.
                if isReleased { keeper.released(name.text, token: token) }
                completion(isReleased ? .released : .lost)
            case .failure(let error):
                completion(.failed(InterlockError(error)))
            }
        }
    }

    func breakLock(name: ResourceName, by: String, completion: Completion<ReleaseAnswer>) {
        let script = BreakScript(keys: keys(name.text), by: by, origin: runtime.id, database: runtime.database)
        runtime.pipeline.run(script) { [self] result in
            switch result {
            case .success(let isBroken):
                if isBroken {
                    runtime.logger.log(.lockBroken, ["lock": "\(name)", "by": by])
                    wake(name.text)
                }
                completion(isBroken ? .released : .lost)
            case .failure(let error):
                completion(.failed(InterlockError(error)))
            }
        }
    }

    // MARK: Looking

    func inspect(name: ResourceName, completion: Completion<Result<LockInformation?, InterlockError>>) {
        runtime.pipeline.run(InspectScript(keys: keys(name.text), sidecar: runtime.id)) { [self] result in
            switch result {
            case .success(let reply):
                let waiters = waiting(for: name.text) + reply.otherSidecars
                guard reply.token != nil || waiters > 0 else {
                    completion(.success(nil))
                    return
                }
                completion(.success(information(on: name.text, reply, waiters: waiters)))
            case .failure(let error):
                completion(.failure(InterlockError(error)))
            }
        }
    }

    private func information(on name: String, _ reply: InspectScript.Reply, waiters: Int) -> LockInformation {
        func label(_ token: String) -> String { leases.label(of: name, token: token) ?? OwnerToken.label(of: token) }
        func lease(_ token: String, fence: Int64?, ttl: Int64) -> LeaseInformation? {
            // A turn or a place that is being offered is nobody's lease.
            OwnerToken.isTicket(token) ? nil : LeaseInformation(label: label(token), fence: fence, ttlMilliseconds: ttl)
        }
        guard let token = reply.token else {
            return LockInformation(
                name: name, label: nil, fence: reply.fence, ttlMilliseconds: 0, mode: nil, holders: 0, leases: [],
                waiters: waiters)
        }
        guard let group = reply.group else {
            let holder = lease(token, fence: reply.fence, ttl: reply.ttl)
            return LockInformation(
                name: name, label: label(token), fence: reply.fence, ttlMilliseconds: reply.ttl, mode: .exclusive, holders: 1,
                leases: holder.map { [$0] } ?? [], waiters: waiters)
        }
        return LockInformation(
            name: name, label: label(token), fence: reply.fence, ttlMilliseconds: reply.ttl,
            mode: group.places == 0 ? .shared : .permits(group.places), holders: group.holders,
            leases: group.leases.compactMap { lease($0.token, fence: $0.fence, ttl: $0.ttl) }, waiters: waiters)
    }

    /// One `SCAN` step: bounded in time by `count`, 1…1000. On a cluster through one server after the other; the cursor says which.
    func list(cursor: String, glob: String, count: Int, completion: Completion<Result<LockPage, InterlockError>>) {
        let servers = runtime.pipeline.connections
        guard let place = ScanCursor(cursor, servers: servers.count) else {
            completion(
                .failure(
                    servers.isEmpty
                        ? InterlockError(runtime.pipeline.lastFailure ?? RedisError(.notConnected, "Redis is not connected"))
                        : InterlockError(.invalid, "the cursor is 0 or what the last step answered")))
            return
        }
        let scan = Scan(
            cursor: place.cursor, pattern: runtime.keys.lockPattern(matching: glob), count: count, type: "string")
        servers[place.server].send(scan) { [self] result in
            switch result {
            case .success(let (next, keys)):
                completion(
                    .success(
                        LockPage(
                            cursor: place.following(next, isLast: place.server == servers.count - 1),
                            names: keys.compactMap { runtime.keys.lockName(ofKey: $0) })))
            case .failure(let error):
                completion(.failure(InterlockError(error)))
            }
        }
    }
}

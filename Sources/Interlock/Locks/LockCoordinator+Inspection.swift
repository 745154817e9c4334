internal import InterlockCore
internal import RedisClient

/// A pending repeat of a lock inspection.
struct PendingInspection {
    let timer: Deadlines.Entry
    /// Completes the call with the result of the previous inspection.
    let complete: () -> Void
}

/// Inspection of locks.
extension LockCoordinator {
    /// The delays, in milliseconds, before an inspection is repeated because some waiter counts are missing.
    private static let retryDelaysMilliseconds: [Int64] = [20, 80]

    /// The maximum number of locks that one command inspects, on one server.
    static let maximumLocksPerCommand = 50
    private static let maximumUnresponsive = 1000

    func inspect(name: ResourceName, completion: Completion<Result<LockInformation?, InterlockError>>) {
        inspect(names: [name]) { completion($0.map { $0[0] }) }
    }

    /// Inspects locks.
    /// - Parameter completion: called with the state of each lock in the same order; `nil` for a lock that has neither
    ///   a holder nor waiters.
    func inspect(names: [ResourceName], completion: @escaping (Result<[LockInformation?], InterlockError>) -> Void) {
        inspect(names.map(\.text), retryDelays: Self.retryDelaysMilliseconds[...], completion)
    }

    private func inspect(
        _ names: [String], retryDelays: ArraySlice<Int64>,
        _ completion: @escaping (Result<[LockInformation?], InterlockError>) -> Void
    ) {
        sendInspections(names) { [self] result in
            guard case .success(let states) = result else { return completion(result) }
            let now = runtime.time.now()
            let incompleteIndices = states.indices.filter { shouldInspectAgain(states[$0], now: now) }
            guard let delayMilliseconds = retryDelays.first, !isShuttingDown, !incompleteIndices.isEmpty else {
                recordUnresponsive(incompleteIndices.compactMap { states[$0] }, now: now)
                return completion(result)
            }
            let retryAt = now.advanced(byMilliseconds: delayMilliseconds)
            lastInspectionID += 1
            let id = lastInspectionID
            let timer = runtime.deadlines.schedule(at: retryAt) { [unowned self] in
                pendingInspections[id] = nil
                inspect(incompleteIndices.map { names[$0] }, retryDelays: retryDelays.dropFirst()) { retryResult in
                    guard case .success(let newerStates) = retryResult else { return completion(result) }
                    var updated = states
                    for (index, lock) in zip(incompleteIndices, newerStates) { updated[index] = lock }
                    completion(.success(updated))
                }
            }
            pendingInspections[id] = PendingInspection(timer: timer) { completion(result) }
        }
    }

    /// Returns whether a sidecar has not reported its waiters yet, unless it is known to be unresponsive.
    private func shouldInspectAgain(_ lock: LockInformation?, now: Instant) -> Bool {
        lock?.queue.contains { $0.waiters == nil && unresponsiveSidecars[$0.id] ?? now <= now } ?? false
    }

    /// Records the sidecars that did not report their waiters, so that later inspections do not wait for them. Such a
    /// sidecar may be down or run an older version.
    private func recordUnresponsive(_ locks: [LockInformation], now: Instant) {
        guard !locks.isEmpty else { return }
        unresponsiveSidecars = unresponsiveSidecars.filter { $0.value > now }
        let until = now.advanced(byMilliseconds: WaiterCounts.lifetimeMilliseconds)
        for sidecar in locks.flatMap(\.queue) where sidecar.waiters == nil {
            if unresponsiveSidecars.count < Self.maximumUnresponsive { unresponsiveSidecars[sidecar.id] = until }
        }
    }

    /// Sends all commands without waiting for replies in between, each with as many locks as possible.
    private func sendInspections(
        _ names: [String], _ completion: @escaping (Result<[LockInformation?], InterlockError>) -> Void
    ) {
        let batchSize = runtime.keys.isOnCluster ? 1 : Self.maximumLocksPerCommand
        var states = [LockInformation?](repeating: nil, count: names.count)
        var failure: InterlockError?
        let starts = stride(from: 0, to: names.count, by: batchSize)
        var unansweredCount = starts.underestimatedCount
        guard unansweredCount > 0 else { return completion(.success([])) }
        for start in starts {
            let batch = names[start..<min(start + batchSize, names.count)]
            let script = InspectScript(locks: batch.map { keys($0) }, sidecar: runtime.id)
            runtime.pipeline.send(script) { [self] result in
                switch result {
                case .success(let replies):
                    for (offset, reply) in replies.enumerated() {
                        states[start + offset] = information(on: names[start + offset], reply)
                    }
                case .failure(let error):
                    failure = failure ?? InterlockError(error)
                }
                unansweredCount -= 1
                guard unansweredCount == 0 else { return }
                completion(failure.map { .failure($0) } ?? .success(states))
            }
        }
    }

    /// Completes pending inspections with their first result, because the sidecar is shutting down.
    func shutDown() {
        isShuttingDown = true
        let pending = pendingInspections.sorted { $0.key < $1.key }
        pendingInspections = [:]
        for (_, inspection) in pending {
            inspection.timer.cancel()
            inspection.complete()
        }
    }

    /// Returns the state of a lock; `nil` if it has neither a holder nor waiters.
    private func information(on name: String, _ reply: InspectScript.LockState) -> LockInformation? {
        let queue = waitingSidecars(for: name, reply)
        let waiters = waiterCount(for: name) + reply.otherSidecarCount
        guard reply.token != nil || waiters > 0 else { return nil }
        func label(_ token: String) -> String {
            if OwnerToken.isTicket(token) { return OwnerToken.sidecar(ofTicket: token) }
            return leases.label(of: name, token: token) ?? OwnerToken.label(of: token)
        }
        func lease(_ token: String, fence: Int64?, ttlMilliseconds: Int64) -> LeaseInformation? {
            // A ticket holds an offered turn or slot, which is not a lease.
            OwnerToken.isTicket(token)
                ? nil : LeaseInformation(label: label(token), fence: fence, ttlMilliseconds: ttlMilliseconds)
        }
        guard let token = reply.token else {
            return LockInformation(
                name: name, label: nil, fence: reply.fence, ttlMilliseconds: 0, mode: nil, holders: 0, leases: [],
                waiters: waiters, queue: queue)
        }
        guard let group = reply.group else {
            let holder = lease(token, fence: reply.fence, ttlMilliseconds: reply.ttlMilliseconds)
            return LockInformation(
                name: name, label: label(token), fence: reply.fence, ttlMilliseconds: reply.ttlMilliseconds,
                mode: .exclusive,
                holders: 1,
                leases: holder.map { [$0] } ?? [], waiters: waiters, queue: queue)
        }
        return LockInformation(
            name: name, label: label(token), fence: reply.fence, ttlMilliseconds: reply.ttlMilliseconds,
            mode: group.slotCount == 0 ? .shared : .permits(group.slotCount), holders: group.holderCount,
            leases: group.leases.compactMap { lease($0.token, fence: $0.fence, ttlMilliseconds: $0.ttlMilliseconds) },
            waiters: waiters, queue: queue)
    }

    /// Returns the waiting sidecars in the order of their turns. This sidecar comes last if its ticket is not in Redis
    /// yet.
    private func waitingSidecars(for name: String, _ reply: InspectScript.LockState) -> [WaitingSidecar] {
        let localQueue = queue(name)
        var sidecars = reply.waiting.map { ticket, waiters in
            WaitingSidecar(
                id: OwnerToken.sidecar(ofTicket: ticket),
                waiters: ticket == localQueue?.ticket ? localQueue?.machine.count : waiters.map(Int.init))
        }
        // A ticket without waiters is about to be withdrawn.
        sidecars.removeAll { $0.id == runtime.id && $0.waiters ?? 0 == 0 }
        if let localQueue, localQueue.machine.count > 0, !sidecars.contains(where: { $0.id == runtime.id }) {
            sidecars.append(WaitingSidecar(id: runtime.id, waiters: localQueue.machine.count))
        }
        return sidecars
    }

    /// Lists the held locks of one `SCAN` step. `count`, from 1 to 1000, limits its duration. On a cluster, the servers
    /// are scanned in turn; the cursor identifies the server.
    func list(cursor: String, glob: String, count: Int, completion: Completion<Result<LockPage, InterlockError>>) {
        let servers = runtime.pipeline.connections
        guard let position = ScanCursor(cursor, servers: servers.count) else {
            completion(
                .failure(
                    servers.isEmpty
                        ? InterlockError(runtime.pipeline.lastFailure ?? RedisError(.notConnected, "Redis is not connected"))
                        : InterlockError(.invalid, "the cursor must be 0 or the one that the previous page returned")))
            return
        }
        let scan = Scan(
            cursor: position.cursor, pattern: runtime.keys.lockPattern(matching: glob), count: count, type: "string")
        servers[position.server].send(scan) { [self] result in
            switch result {
            case .success(let (next, keys)):
                completion(
                    .success(
                        LockPage(
                            cursor: position.following(next, isLast: position.server == servers.count - 1),
                            names: keys.compactMap { runtime.keys.lockName(ofKey: $0) })))
            case .failure(let error):
                completion(.failure(InterlockError(error)))
            }
        }
    }
}

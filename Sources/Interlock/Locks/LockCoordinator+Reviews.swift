internal import Hiredis
internal import InterlockCore
internal import Logging

/// How this sidecar's count and history of leases follow what others do with them.
extension LockCoordinator {
    /// A lease was listed: it is read again when its time comes.
    func planReview() {
        guard nextReview == nil else { return }
        scheduleReview(at: runtime.time.now().advanced(byMilliseconds: LeaseTable.reviewMilliseconds))
    }

    /// Another sidecar says that a lock was broken. It may have been granted again since: Redis knows.
    func broken(_ name: String) {
        keeper.broken(name)
        guard leases.suspect(name) else { return }
        // With what else is said in this tick.
        nextReview?.cancel()
        scheduleReview(at: runtime.time.now())
    }

    private func scheduleReview(at instant: Instant) {
        nextReview = runtime.deadlines.schedule(at: instant) { [unowned self] in
            nextReview = nil
            review()
            if !leases.isEmpty { planReview() }
        }
    }

    private func review() {
        let sentAt = runtime.time.now()
        let due = leases.due(now: sentAt) { keeper.follows($0.name, token: $0.token) }
        let size = runtime.keys.isOnCluster ? 1 : Self.mostAtOnce
        for start in stride(from: 0, to: due.count, by: size) {
            let grants = due[start..<min(start + size, due.count)].map { (keys: keys($0.name), lease: $0) }
            runtime.pipeline.run(StandingScript(grants: grants)) { [self] result in
                // Without an answer the next review may have one.
                guard case .success(let standings) = result else { return }
                let now = runtime.time.now()
                for (grant, standing) in zip(grants, standings) {
                    leases.reviewed(
                        grant.lease, standing, isReplicated: settings.waitReplicas == 0, sentAt: sentAt, now: now)
                }
            }
        }
    }

    /// A semaphore keeps its size for as long as leases of it overlap. Who asks for another is granted a place and not told on the way:
    /// so it is logged, once for each lock and size asked for.
    func note(_ asked: Int, places: Int, of name: String) {
        guard asked != places else { return }
        if misfits.count >= Self.mostMisfits { misfits = [] }
        guard misfits.insert("\(asked) \(name)").inserted else { return }
        runtime.logger.log(.lockPermitsDiffer, ["lock": name, "asked": "\(asked)", "permits": "\(places)"])
    }

    private static let mostMisfits = 1000
}

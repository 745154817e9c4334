internal import InterlockCore

/// Acquires several locks, all or none. It acquires them one after another in the order of their names, so that callers
/// that want the same locks never deadlock. If one cannot be acquired, the others are released. Confined to the
/// coordinator's event loop.
final class JointAcquisition {
    private let request: JointLockRequest
    private let locks: LockCoordinator
    private let time: TimeSource
    private let completion: Completion<JointLockResult>
    private let startedAt: Instant
    /// The locks in the order in which they are acquired.
    private let names: [ResourceName]
    private var acquired: [Lease] = []
    private var inFlight: LockQueue.WaiterID?
    private var isOver = false
    /// Called once, when there is nothing left to cancel.
    var onEnd: (() -> Void)?

    init(
        _ request: JointLockRequest, locks: LockCoordinator, time: TimeSource, completion: Completion<JointLockResult>
    ) {
        self.request = request
        self.locks = locks
        self.time = time
        self.completion = completion
        startedAt = time.now()
        names = request.names.sorted { $0.text.utf8.lexicographicallyPrecedes($1.text.utf8) }
    }

    /// Returns the error in the request; `nil` if there is none.
    static func violation(in request: JointLockRequest) -> InterlockError? {
        guard (1...JointLockRequest.maximumCount).contains(request.names.count) else {
            return InterlockError(
                .invalid, "expected 1 to \(JointLockRequest.maximumCount) locks in one call, got \(request.names.count)")
        }
        var seen: Set<ResourceName> = []
        if let duplicate = request.names.first(where: { !seen.insert($0).inserted }) {
            return InterlockError(.invalid, "duplicate lock name \"\(duplicate)\"; list each lock once")
        }
        guard request.template.mode == .exclusive else {
            return InterlockError(.invalid, "locks acquired together must be exclusive, not shared or semaphores")
        }
        return nil
    }

    func acquireNext() {
        guard acquired.count < names.count else { return finish() }
        var next = request.template
        next.name = names[acquired.count]
        let elapsed = time.now().millisecondsRoundedUp(since: startedAt)
        next.wait = max(0, request.template.wait - elapsed)
        // If the answer arrives before `acquire` returns, there is nothing to cancel.
        var isAnswered = false
        let id = locks.acquire(
            next,
            completion: Completion { [self] _, answer in
                isAnswered = true
                return received(answer)
            })
        if !isAnswered { inFlight = id }
    }

    /// Cancels the call and releases the locks acquired so far.
    func cancel() {
        guard !isOver else { return }
        isOver = true
        if let inFlight { locks.cancel(inFlight) }
        releaseAll()
    }

    private func received(_ answer: LockResult) -> Bool {
        inFlight = nil
        guard !isOver else { return false }
        switch answer {
        case .granted(let lease):
            acquired.append(lease)
            acquireNext()
        case .held:
            end(.held)
        case .failed(let error):
            end(.failed(error))
        }
        return true
    }

    private func finish() {
        let now = time.now()
        var leases: [ExactText: Lease] = [:]
        for var lease in acquired {
            lease.validMilliseconds = (lease.deadline.nanoseconds - now.nanoseconds) / 1_000_000
            guard lease.validMilliseconds > 0 else {
                return end(
                    .failed(
                        InterlockError(
                            .unavailable,
                            "the lease of \"\(lease.name)\" ended before the other locks were acquired; use a longer ttl")))
            }
            leases[ExactText(lease.name)] = lease
        }
        isOver = true
        if !completion(.granted(request.names.compactMap { leases[ExactText($0.text)] })) { releaseAll() }
        onEnd?()
    }

    private func end(_ answer: JointLockResult) {
        isOver = true
        releaseAll()
        completion(answer)
        onEnd?()
    }

    /// Releases the locks acquired so far. If the owner chose the token they expire instead, because a retry may
    /// already hold those leases.
    private func releaseAll() {
        defer { acquired = [] }
        guard request.template.owner == nil else { return }
        for lease in acquired.reversed() { locks.release(lease.name, token: lease.token, ttl: lease.ttlMilliseconds) }
    }
}

internal import InterlockCore

/// Acquires all of several locks or none of them. Acquires them one after another in the order of their names, so that
/// callers that want the same locks never deadlock. If one lock cannot be acquired, releases the others. Confined to
/// the coordinator's event loop.
final class JointAcquisition {
    private let request: JointLockRequest
    private let locks: LockCoordinator
    private let time: TimeSource
    private let completion: Completion<JointLockResult>
    private let startedAt: Instant
    /// The locks in the order in which they are acquired.
    private let names: [ResourceName]
    private var acquired: [Lease] = []
    private var inFlightID: LockQueue.WaiterID?
    private var hasEnded = false
    /// Called once, when the call can no longer be cancelled.
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

    /// Returns the error in the request; `nil` if the request is valid.
    static func violation(in request: JointLockRequest) -> InterlockError? {
        guard (1...JointLockRequest.maximumCount).contains(request.names.count) else {
            return InterlockError(
                .invalid, "expected 1 to \(JointLockRequest.maximumCount) locks in one call, got \(request.names.count)")
        }
        var checkedNames: Set<ResourceName> = []
        if let duplicate = request.names.first(where: { !checkedNames.insert($0).inserted }) {
            return InterlockError(.invalid, "duplicate lock name \"\(duplicate)\"; list each lock once")
        }
        guard request.template.mode == .exclusive else {
            return InterlockError(.invalid, "locks acquired together must be exclusive, not shared or semaphores")
        }
        return nil
    }

    /// Acquires the next lock, or hands out the leases if all locks are acquired.
    func acquireNext() {
        guard acquired.count < names.count else { return finish() }
        var nextRequest = request.template
        nextRequest.name = names[acquired.count]
        let elapsedMilliseconds = time.now().millisecondsRoundedUp(since: startedAt)
        nextRequest.waitMilliseconds = max(0, request.template.waitMilliseconds - elapsedMilliseconds)
        // If the answer arrives before `acquire` returns, there is nothing to cancel.
        var isAnswered = false
        let id = locks.acquire(
            nextRequest,
            completion: Completion { [self] _, result in
                isAnswered = true
                return lockAnswered(result)
            })
        if !isAnswered { inFlightID = id }
    }

    /// Cancels the call and releases the locks acquired so far.
    func cancel() {
        guard !hasEnded else { return }
        hasEnded = true
        if let inFlightID { locks.cancel(inFlightID) }
        releaseAll()
    }

    /// Handles the answer to the request for one lock. Returns `false` if the call was cancelled.
    private func lockAnswered(_ result: LockResult) -> Bool {
        inFlightID = nil
        guard !hasEnded else { return false }
        switch result {
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
        hasEnded = true
        if !completion(.granted(request.names.compactMap { leases[ExactText($0.text)] })) { releaseAll() }
        onEnd?()
    }

    private func end(_ result: JointLockResult) {
        hasEnded = true
        releaseAll()
        completion(result)
        onEnd?()
    }

    /// Releases the locks acquired so far. If the owner chose the token, they expire instead, because a retry may
    /// already hold those leases.
    private func releaseAll() {
        defer { acquired = [] }
        guard request.template.owner == nil else { return }
        for lease in acquired.reversed() {
            locks.release(lease.name, token: lease.token, ttlMilliseconds: lease.ttlMilliseconds)
        }
    }
}

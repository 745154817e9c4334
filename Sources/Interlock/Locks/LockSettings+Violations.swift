internal import InterlockCore

extension LockSettings {
    /// What is wrong with a request, before Redis is asked; `nil`: nothing.
    func violation(in request: LockRequest) -> InterlockError? {
        let longest = maximumTTL.wholeMilliseconds
        guard (LeaseValidity.shortestTTL...longest).contains(request.ttl) else {
            return InterlockError(
                .invalid, "a ttl of \(request.ttl) ms: it must be between \(LeaseValidity.shortestTTL) and \(longest) ms")
        }
        guard request.wait >= 0 else {
            return InterlockError(.invalid, "a wait of \(request.wait) ms: it must be 0 or more")
        }
        if case .permits(let count) = request.mode, !LockMode.places.contains(count) {
            return InterlockError(
                .invalid,
                "a semaphore of \(count) places: it must have between \(LockMode.places.lowerBound) and \(LockMode.places.upperBound)"
            )
        }
        for (what, text) in [("label", request.label), ("owner", request.owner)] {
            guard let text, LockMode.isReserved(token: text) else { continue }
            return InterlockError(
                .invalid, "the \(what) \"\(text)\": Interlock itself uses such names, for groups of holders and for tickets")
        }
        return nil
    }
}

extension InterlockError {
    /// See `CoordinatorCalls.followLease`.
    static let tooManyFollowed = InterlockError(
        .unavailable, "this sidecar already looks after as many leases as it can; ask another one, or without LINKED")

    static func heldOtherwise(_ request: LockRequest, _ mode: LockMode) -> InterlockError {
        let how =
            switch mode {
            case .exclusive: "by one holder alone"
            case .shared: "by readers"
            case .permits(let count): "as a semaphore of \(count)"
            }
        return InterlockError(
            .invalid, "the lock \"\(request.name)\" is held \(how), which does not go together with what was asked for")
    }

    static func unreplicated(acknowledged: Int, wanted: Int) -> InterlockError {
        InterlockError(
            .unreplicated,
            "only \(acknowledged) of \(wanted) replicas acknowledged the lease in time, and it was given up; see locks.wait_replicas"
        )
    }
}

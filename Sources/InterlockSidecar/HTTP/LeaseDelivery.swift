internal import Interlock
internal import InterlockCore

/// Takes locks for a client that may leave before it is told: then nothing stays behind.
///
/// With an owner of the client's own nothing is given back once it is granted, for a retry may hold that very lease.
struct LeaseDelivery: Sendable {
    let coordinator: Coordinator

    /// - Returns: the leases, in the order in which they were asked for; `nil`: another holds one of the locks.
    /// - Throws: `InterlockError`; `HTTPProblem` when the client has left.
    func acquire(_ wish: LockWish, for peer: PeerPresence) async throws -> [Lease]? {
        guard let others = wish.others else { return try await acquire(wish.request, for: peer).map { [$0] } }
        let request = JointLockRequest(names: [wish.request.name] + others, template: wish.request)
        return try await take(of: wish.request.owner, for: peer) { [coordinator] in
            try await coordinator.acquireLocks(request)
        }
    }

    /// - Returns: the lease; `nil`: held by another.
    /// - Throws: `InterlockError`; `HTTPProblem` when the client has left.
    func acquire(_ request: LockRequest, for peer: PeerPresence) async throws -> Lease? {
        let leases = try await take(of: request.owner, for: peer) { [coordinator] in
            try await coordinator.acquireLock(request).map { [$0] }
        }
        return leases?.first
    }

    private func take(
        of owner: String?, for peer: PeerPresence, _ acquisition: @escaping @Sendable () async throws -> [Lease]?
    ) async throws -> [Lease]? {
        let leases = try await peer.whilePresent(acquisition)
        guard let leases, peer.hasLeft, owner == nil else { return leases }
        await giveBack(leases, of: owner)
        throw HTTPProblem.clientHasLeft
    }

    /// Ends leases that their client was not told of.
    func giveBack(_ leases: [Lease], of owner: String?) async {
        guard owner == nil else { return }
        for lease in leases {
            // What cannot be given back now lapses by itself.
            _ = try? await coordinator.releaseLock(ResourceName(lease.name), token: lease.token)
        }
    }
}

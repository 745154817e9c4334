internal import Interlock
internal import InterlockCore

/// Takes a lock for a client that may leave before it is told: then nothing stays behind.
///
/// With an owner of the client's own nothing is given back once it is granted, for a retry may hold that very lease.
struct LeaseDelivery: Sendable {
    let coordinator: Coordinator

    /// - Returns: the lease; `nil`: held by another.
    /// - Throws: `InterlockError`; `HTTPProblem` when the client has left.
    func acquire(_ request: LockRequest, for peer: PeerPresence) async throws -> Lease? {
        let coordinator = coordinator
        let lease = try await peer.whilePresent { try await coordinator.acquireLock(request) }
        guard let lease, peer.hasLeft, request.owner == nil else { return lease }
        await giveBack(lease, request.name)
        throw HTTPProblem.clientHasLeft
    }

    func giveBack(_ lease: Lease, _ name: ResourceName) async {
        // What cannot be given back now lapses by itself.
        _ = try? await coordinator.releaseLock(name, token: lease.token)
    }
}

internal import HTTPTypes
internal import HummingbirdCore
internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import ServiceLifecycle

/// Leases that live as long as a stream of events: extended while it is open, released when the client closes it, and let
/// lapse when the sidecar goes down, or nothing is heard of the client any more.
struct LinkedLeases: Sendable {
    private let coordinator: Coordinator
    private let peer: PeerPresence
    private let leases: [(lease: Lease, followed: FollowedLease)]

    /// What became of the lease at `index`.
    private struct End: Sendable {
        var index: Int
        /// `nil`: it was released.
        var loss: LeaseLoss?
    }

    /// Follows leases that were granted just now.
    /// - Throws: `InterlockError` when too many are followed; then none of these is.
    init(following leases: [Lease], of peer: PeerPresence, with coordinator: Coordinator) async throws {
        var followed: [(lease: Lease, followed: FollowedLease)] = []
        do {
            for lease in leases {
                let one = try await coordinator.followLease(lease, isLinked: true)
                followed.append((lease, one))
            }
        } catch {
            for (_, one) in followed { await coordinator.unfollowLease(one.follower) }
            throw error
        }
        self.coordinator = coordinator
        self.peer = peer
        self.leases = followed
    }

    /// - Parameter first: the event that hands the leases out.
    func answer(beginningWith first: String, through stream: ServerSentEvents) -> HTTPAnswer {
        var answer = ServerSentEvents.answer(.created)
        answer.body = ResponseBody { writer in
            try await writer.write(ByteBuffer(string: first))
            try await tellLosses(through: stream, to: &writer)
            try await writer.finish(nil)
        }
        // Also what could not be written to the end.
        answer.ifUndelivered = { await letGo() }
        return answer
    }

    /// Tells of each loss, until all leases are lost or released, the client leaves or the sidecar goes down.
    @concurrent
    private func tellLosses(through stream: ServerSentEvents, to writer: inout any ResponseBodyWriter) async throws {
        var remaining = Set(leases.indices)
        let ends = ServerSentEvents.signals(for: End.self)
        let watch = watch(into: ends)
        defer { watch.cancel() }
        try await stream.forward(ends, to: &writer) { end in
            remaining.remove(end.index)
            return try end.loss.map { try event(of: leases[end.index].lease, $0) }
        }
        let isGoingDown = Task.isShuttingDownGracefully
        await letGo()
        guard isGoingDown else { return }
        // The coordinator's own word for it may still be on its way.
        for index in remaining.sorted() {
            try await writer.write(ByteBuffer(string: try event(of: leases[index].lease, .shutdown)))
        }
    }

    /// Tells of the end of each lease, once.
    private func watch(into ends: NewestBuffer<ServerSentEvents.Signal<End>>) -> Task<Void, Never> {
        Task { [leases] in
            await withDiscardingTaskGroup { group in
                for (index, one) in leases.enumerated() {
                    group.addTask {
                        var end = End(index: index, loss: nil)
                        for await loss in one.followed.losses { end.loss = loss }
                        ends.push(.news(end))
                    }
                }
            }
            ends.finish()
        }
    }

    private func event(of lease: Lease, _ loss: LeaseLoss) throws -> String {
        try ServerSentEvents.event("lost", LossReply(lease, loss))
    }

    /// Ends what the stream kept: those that have ended already are left alone.
    private func letGo() async {
        let mayBeAtWork = Task.isShuttingDownGracefully || peer.isSilent
        for (_, one) in leases {
            if mayBeAtWork {
                await coordinator.unfollowLease(one.follower)
            } else {
                await coordinator.releaseFollowedLease(one.follower)
            }
        }
    }
}

/// Takes locks for a client that may leave before it is told: then nothing stays behind.
///
/// With an owner of the client's own nothing is given back once it is granted, for a retry may hold that very lease.
struct LeaseDelivery: Sendable {
    let coordinator: Coordinator

    /// - Returns: the leases, in the order in which they were asked for; `nil`: another holds one of the locks.
    /// - Throws: `InterlockError`; `HTTPProblem` when the client has left.
    func acquire(_ body: LockBody, for peer: PeerPresence) async throws -> [Lease]? {
        guard let others = body.others else { return try await acquire(body.request, for: peer).map { [$0] } }
        let request = JointLockRequest(names: [body.request.name] + others, template: body.request)
        return try await take(of: body.request.owner, for: peer) { [coordinator] in
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

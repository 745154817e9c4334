internal import Interlock
internal import InterlockCore
internal import NIOHTTP1

/// Leases whose lifetime is tied to an event stream. They are renewed while the stream is open, and released when the
/// client closes it. They lapse when the sidecar shuts down, the client becomes unreachable, or its API key is removed.
struct LinkedLeases: Sendable {
    private let coordinator: Coordinator
    private let presence: ClientPresence
    private let leases: [(lease: Lease, followed: FollowedLease)]

    /// The end of the lease at `index`.
    private struct End: Sendable {
        var index: Int
        /// The cause of the loss; `nil` if the lease was released.
        var loss: LeaseLoss?
    }

    /// Follows leases that were just granted.
    /// - Throws: `InterlockError` if too many leases are followed; then none of these leases is followed.
    init(following leases: [Lease], of presence: ClientPresence, with coordinator: Coordinator) async throws {
        var followed: [(lease: Lease, followed: FollowedLease)] = []
        do {
            for lease in leases {
                let followedLease = try await coordinator.followLease(lease, isLinked: true)
                followed.append((lease, followedLease))
            }
        } catch {
            for (_, followedLease) in followed { await coordinator.unfollowLease(followedLease) }
            throw error
        }
        self.coordinator = coordinator
        self.presence = presence
        self.leases = followed
    }

    /// Returns the response whose stream reports the losses.
    /// - Parameter leaseEvent: the first event, which contains the leases.
    func response(beginningWith leaseEvent: String, through stream: ServerSentEvents) -> HTTPResponse {
        var response = ServerSentEvents.response(.created)
        response.body = .stream { writer in
            try await writer.write(leaseEvent)
            try await reportLosses(through: stream, to: writer)
        }
        // The stream may also fail before `reportLosses` returns.
        response.ifUndelivered = { Task { await endFollowing(stream) } }
        return response
    }

    /// Writes an event for each loss, until all leases are lost or released, the client leaves, or the sidecar shuts
    /// down.
    @concurrent
    private func reportLosses(through stream: ServerSentEvents, to writer: HTTPBodyWriter) async throws {
        var remaining = Set(leases.indices)
        let ends = ServerSentEvents.signals(for: End.self)
        let watchTask = watch(into: ends)
        defer { watchTask.cancel() }
        try await stream.forward(ends, to: writer) { end in
            remaining.remove(end.index)
            return try end.loss.map { try event(of: leases[end.index].lease, $0) }
        }
        await endFollowing(stream)
        guard stream.call.shutdown.hasFired else { return }
        // The coordinator's reports of these losses may arrive too late.
        for index in remaining.sorted() {
            try await writer.write(try event(of: leases[index].lease, .shutdown))
        }
    }

    /// Starts a task that adds the end of each lease to `ends` once, then finishes it.
    private func watch(into ends: NewestBuffer<ServerSentEvents.Signal<End>>) -> Task<Void, Never> {
        Task { [leases] in
            await withDiscardingTaskGroup { group in
                for (index, entry) in leases.enumerated() {
                    group.addTask {
                        var end = End(index: index, loss: nil)
                        for await loss in entry.followed.losses { end.loss = loss }
                        ends.push(.event(end))
                    }
                }
            }
            ends.finish()
        }
    }

    private func event(of lease: Lease, _ loss: LeaseLoss) throws -> String {
        try ServerSentEvents.event("lost", LossReply(lease, loss))
    }

    /// Releases the stream's leases, or leaves them to lapse if the client may still rely on them. Leases that have
    /// ended are unaffected.
    private func endFollowing(_ stream: ServerSentEvents) async {
        let clientMayStillRun = stream.call.shutdown.hasFired || presence.isUnreachable || stream.call.isKeyRemoved
        for (_, followedLease) in leases {
            if clientMayStillRun {
                await coordinator.unfollowLease(followedLease)
            } else {
                await coordinator.releaseFollowedLease(followedLease.follower)
            }
        }
    }
}

internal import Interlock
internal import InterlockCore
internal import NIOHTTP1

/// Leases whose lifetime is tied to an event stream. They are renewed while the stream is open, and released when the
/// client closes it. They lapse when the sidecar shuts down, the client becomes unreachable, or its API key is removed.
struct LinkedLeases: Sendable {
    private let coordinator: Coordinator
    private let peer: ClientPresence
    private let leases: [(lease: Lease, followed: FollowedLease)]

    /// The end of the lease at `index`.
    private struct End: Sendable {
        var index: Int
        /// The cause of the loss; `nil` if the lease was released.
        var loss: LeaseLoss?
    }

    /// Follows leases that were just granted.
    /// - Throws: `InterlockError` if too many leases are followed; then none of these leases is followed.
    init(following leases: [Lease], of peer: ClientPresence, with coordinator: Coordinator) async throws {
        var followed: [(lease: Lease, followed: FollowedLease)] = []
        do {
            for lease in leases {
                let entry = try await coordinator.followLease(lease, isLinked: true)
                followed.append((lease, entry))
            }
        } catch {
            for (_, entry) in followed { await coordinator.unfollowLease(entry) }
            throw error
        }
        self.coordinator = coordinator
        self.peer = peer
        self.leases = followed
    }

    /// - Parameter first: the event that contains the leases.
    func response(beginningWith first: String, through stream: ServerSentEvents) -> HTTPResponse {
        var response = ServerSentEvents.response(.created)
        response.body = .stream { writer in
            try await writer.write(first)
            try await reportLosses(through: stream, to: writer)
        }
        // The stream may also end before everything is written.
        response.ifUndelivered = { Task { await endFollowing(stream) } }
        return response
    }

    /// Reports each loss, until all leases are lost or released, the client leaves or the sidecar shuts down.
    @concurrent
    private func reportLosses(through stream: ServerSentEvents, to writer: HTTPBodyWriter) async throws {
        var remaining = Set(leases.indices)
        let ends = ServerSentEvents.signals(for: End.self)
        let watch = watch(into: ends)
        defer { watch.cancel() }
        try await stream.forward(ends, to: writer) { end in
            remaining.remove(end.index)
            return try end.loss.map { try event(of: leases[end.index].lease, $0) }
        }
        await endFollowing(stream)
        guard stream.call.shutdown.hasFired else { return }
        // The coordinator's reports of these losses may not have arrived yet.
        for index in remaining.sorted() {
            try await writer.write(try event(of: leases[index].lease, .shutdown))
        }
    }

    /// Reports the end of each lease once.
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

    /// Releases the stream's leases, or leaves them to lapse. Leases that have ended are unaffected.
    private func endFollowing(_ stream: ServerSentEvents) async {
        let mayStillRun = stream.call.shutdown.hasFired || peer.isUnreachable || stream.call.isKeyRemoved
        for (_, entry) in leases {
            if mayStillRun {
                await coordinator.unfollowLease(entry)
            } else {
                await coordinator.releaseFollowedLease(entry.follower)
            }
        }
    }
}

internal import Interlock
internal import InterlockCore
internal import NIOHTTP1

/// Leases that live as long as an event stream. They are extended while the stream is open, and released when the
/// client closes it. They lapse when the sidecar goes down, the client becomes unreachable, or its API key is removed.
struct LinkedLeases: Sendable {
    private let coordinator: Coordinator
    private let peer: PeerPresence
    private let leases: [(lease: Lease, followed: FollowedLease)]

    /// The end of the lease at `index`.
    private struct End: Sendable {
        var index: Int
        /// The cause of the loss; `nil` if the lease was released.
        var loss: LeaseLoss?
    }

    /// Follows leases that were just granted.
    /// - Throws: `InterlockError` if too many leases are followed; then none of these leases is followed.
    init(following leases: [Lease], of peer: PeerPresence, with coordinator: Coordinator) async throws {
        var followed: [(lease: Lease, followed: FollowedLease)] = []
        do {
            for lease in leases {
                let one = try await coordinator.followLease(lease, isLinked: true)
                followed.append((lease, one))
            }
        } catch {
            for (_, one) in followed { await coordinator.unfollowLease(one) }
            throw error
        }
        self.coordinator = coordinator
        self.peer = peer
        self.leases = followed
    }

    /// - Parameter first: the event that contains the leases.
    func answer(beginningWith first: String, through stream: ServerSentEvents) -> HTTPAnswer {
        var answer = ServerSentEvents.answer(.created)
        answer.body = .stream { writer in
            try await writer.write(first)
            try await tellLosses(through: stream, to: writer)
        }
        // Also called if the stream ends before everything is written.
        answer.ifUndelivered = { Task { await letGo(stream) } }
        return answer
    }

    /// Reports each loss, until all leases are lost or released, the client leaves or the sidecar goes down.
    @concurrent
    private func tellLosses(through stream: ServerSentEvents, to writer: HTTPBodyWriter) async throws {
        var remaining = Set(leases.indices)
        let ends = ServerSentEvents.signals(for: End.self)
        let watch = watch(into: ends)
        defer { watch.cancel() }
        try await stream.forward(ends, to: writer) { end in
            remaining.remove(end.index)
            return try end.loss.map { try event(of: leases[end.index].lease, $0) }
        }
        await letGo(stream)
        guard stream.call.shutdown.hasHappened else { return }
        // The coordinator's own reports of the loss may not have arrived yet.
        for index in remaining.sorted() {
            try await writer.write(try event(of: leases[index].lease, .shutdown))
        }
    }

    /// Reports the end of each lease once.
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

    /// Releases the stream's leases, or leaves them to lapse. Leases that have ended are unaffected.
    private func letGo(_ stream: ServerSentEvents) async {
        let mayBeAtWork = stream.call.shutdown.hasHappened || peer.isSilent || stream.call.isKeyRemoved
        for (_, one) in leases {
            if mayBeAtWork {
                await coordinator.unfollowLease(one)
            } else {
                await coordinator.releaseFollowedLease(one.follower)
            }
        }
    }
}

/// Acquires locks for a client that may leave before it gets the answer. The locks are then released.
///
/// Once granted to an owner that the client has chosen, a lease is not released, because a retry may hold the same
/// lease.
struct LeaseDelivery: Sendable {
    let coordinator: Coordinator

    /// Acquires one lock, or several together. Call this on the event loop.
    /// - Parameters:
    ///   - span: the span of the request; `nil` if the request is not traced.
    ///   - granted: answers with the leases, in the order of the request. Returns `false` if the client has left; the
    ///     coordinator then releases the leases.
    func acquire(_ body: LockBody, _ reply: HTTPReply, for span: Span?, granted: @escaping ([Lease]) -> Bool) {
        guard let others = body.others else { return acquire(body.request, reply, for: span) { granted([$0]) } }
        let calls = coordinator.callsOnEventLoop()
        let trace = span.map { StepTrace(.acquire, body.request.name.text, wait: body.request.wait, of: $0, calls: calls) }
        let request = JointLockRequest(names: [body.request.name] + others, template: body.request)
        let pending = calls.acquireLocks(
            request,
            completion: Completion { _, answer in
                trace?.answered(answer)
                return switch answer {
                case .granted(let leases): reply.isAwaited && granted(leases)
                case .held: reply.fail(HTTPProblem.held(oneOf: others.count + 1))
                case .failed(let error): reply.fail(error)
                }
            })
        reply.cancelsWhenLeft(pending, calls)
    }

    /// - Parameter ended: called once, whatever the outcome.
    func acquire(
        _ request: LockRequest, _ reply: HTTPReply, for span: Span?, ended: @escaping () -> Void = {},
        granted: @escaping (Lease) -> Bool
    ) {
        let calls = coordinator.callsOnEventLoop()
        let trace = span.map { StepTrace(.acquire, request.name.text, wait: request.wait, of: $0, calls: calls) }
        let pending = calls.acquireLock(
            request,
            completion: Completion { _, answer in
                defer { ended() }
                trace?.answered(answer)
                return switch answer {
                case .granted(let lease): reply.isAwaited && granted(lease)
                case .held: reply.fail(HTTPProblem.held(request.name))
                case .failed(let error): reply.fail(error)
                }
            })
        reply.cancelsWhenLeft(pending, calls, then: ended)
    }

    /// Returns the answer that contains the leases, which are given back if the answer cannot be delivered.
    func answer(_ members: KeyValuePairs<String, JSONValue>, with leases: [Lease], of owner: String?) -> HTTPAnswer {
        var answer = HTTPAnswer.object(members, .created)
        answer.ifUndelivered = { giveBack(leases, of: owner) }
        return answer
    }

    /// Releases leases that their client has not received, unless it chose the owner. Call this on the event loop.
    func giveBack(_ leases: [Lease], of owner: String?) {
        guard owner == nil else { return }
        let calls = coordinator.callsOnEventLoop()
        for lease in leases {
            guard let name = try? ResourceName(lease.name) else { continue }
            // A lease that cannot be released now lapses by itself.
            calls.releaseLock(name, token: lease.token, completion: Completion { _, _ in true })
        }
    }
}

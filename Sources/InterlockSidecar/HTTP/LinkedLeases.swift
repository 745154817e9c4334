internal import Interlock
internal import InterlockCore
internal import NIOHTTP1

/// Leases that live as long as a stream of events: extended while it is open, released when the client closes it, and let
/// lapse when the sidecar goes down, when nothing is heard of the client any more, or when its API key is removed.
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
            for (_, one) in followed { await coordinator.unfollowLease(one) }
            throw error
        }
        self.coordinator = coordinator
        self.peer = peer
        self.leases = followed
    }

    /// - Parameter first: the event that hands the leases out.
    func answer(beginningWith first: String, through stream: ServerSentEvents) -> HTTPAnswer {
        var answer = ServerSentEvents.answer(.created)
        answer.body = .stream { writer in
            try await writer.write(first)
            try await tellLosses(through: stream, to: writer)
        }
        // Also what could not be written to the end.
        answer.ifUndelivered = { Task { await letGo(stream) } }
        return answer
    }

    /// Tells of each loss, until all leases are lost or released, the client leaves or the sidecar goes down.
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
        // The coordinator's own word for it may still be on its way.
        for index in remaining.sorted() {
            try await writer.write(try event(of: leases[index].lease, .shutdown))
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

/// Takes locks for a client that may leave before it is told: then nothing stays behind.
///
/// With an owner of the client's own nothing is given back once it is granted, for a retry may hold that very lease.
struct LeaseDelivery: Sendable {
    let coordinator: Coordinator

    /// On the event loop.
    /// - Parameters:
    ///   - span: of the request; `nil`: it is not traced. So below.
    ///   - granted: answers with the leases, in the order in which they were asked for. `false`: the client has left, and
    ///   the coordinator gives them back.
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

    /// - Parameter ended: called once, whatever comes of it.
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

    /// The answer that hands leases out.
    func answer(_ members: KeyValuePairs<String, JSONValue>, with leases: [Lease], of owner: String?) -> HTTPAnswer {
        var answer = HTTPAnswer.object(members, .created)
        answer.ifUndelivered = { giveBack(leases, of: owner) }
        return answer
    }

    /// Ends leases that their client was not told of. On the event loop.
    func giveBack(_ leases: [Lease], of owner: String?) {
        guard owner == nil else { return }
        let calls = coordinator.callsOnEventLoop()
        for lease in leases {
            guard let name = try? ResourceName(lease.name) else { continue }
            // What cannot be given back now lapses by itself.
            calls.releaseLock(name, token: lease.token, completion: Completion { _, _ in true })
        }
    }
}

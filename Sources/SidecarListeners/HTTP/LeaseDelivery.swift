internal import Interlock
internal import InterlockCore
internal import NIOHTTP1
internal import SidecarTelemetry

/// Acquires locks for a client, and releases them if the client disconnects before it gets the response.
///
/// If the client has chosen the owner, the lease is not released: a retry of the request by that owner may hold the
/// same lease.
struct LeaseDelivery: Sendable {
    let coordinator: Coordinator

    /// Acquires one lock, or several together. Must be called on the event loop.
    /// - Parameters:
    ///   - span: the span of the request; `nil` if the request is not traced.
    ///   - onGrant: responds with the leases, in the order of the request. Returns `false` if the client has left. The
    ///     coordinator then releases the leases.
    func acquire(_ body: LockBody, _ responder: HTTPResponder, for span: Span?, onGrant: @escaping ([Lease]) -> Bool) {
        guard let others = body.others else { return acquire(body.request, responder, for: span) { onGrant([$0]) } }
        let loopCoordinator = coordinator.loopBound()
        let trace = span.map {
            StepTrace(
                .acquire, body.request.name.text, waitMilliseconds: body.request.waitMilliseconds, of: $0,
                coordinator: loopCoordinator)
        }
        let request = JointLockRequest(names: [body.request.name] + others, template: body.request)
        let pending = loopCoordinator.acquireLocks(
            request,
            completion: Completion { _, result in
                trace?.stepAnswered(result)
                return switch result {
                case .granted(let leases): responder.isAwaited && onGrant(leases)
                case .held: responder.fail(HTTPProblem.held(oneOf: others.count + 1))
                case .failed(let error): responder.fail(error)
                }
            })
        responder.cancelOnDisconnect(pending, loopCoordinator)
    }

    /// Acquires one lock.
    /// - Parameter onEnd: called once, whatever the outcome.
    func acquire(
        _ request: LockRequest, _ responder: HTTPResponder, for span: Span?, onEnd: @escaping () -> Void = {},
        onGrant: @escaping (Lease) -> Bool
    ) {
        let loopCoordinator = coordinator.loopBound()
        let trace = span.map {
            StepTrace(
                .acquire, request.name.text, waitMilliseconds: request.waitMilliseconds, of: $0, coordinator: loopCoordinator)
        }
        let pending = loopCoordinator.acquireLock(
            request,
            completion: Completion { _, result in
                defer { onEnd() }
                trace?.stepAnswered(result)
                return switch result {
                case .granted(let lease): responder.isAwaited && onGrant(lease)
                case .held: responder.fail(HTTPProblem.held(request.name))
                case .failed(let error): responder.fail(error)
                }
            })
        responder.cancelOnDisconnect(pending, loopCoordinator, then: onEnd)
    }

    /// Returns the response that contains the leases, which are released if the response cannot be delivered.
    func response(_ fields: KeyValuePairs<String, JSONValue>, with leases: [Lease], of owner: String?) -> HTTPResponse {
        var response = HTTPResponse.object(fields, .created)
        response.ifUndelivered = { releaseUndelivered(leases, of: owner) }
        return response
    }

    /// Releases leases that their client has not received, unless it chose the owner. Must be called on the event loop.
    func releaseUndelivered(_ leases: [Lease], of owner: String?) {
        guard owner == nil else { return }
        let loopCoordinator = coordinator.loopBound()
        for lease in leases {
            guard let name = try? ResourceName(lease.name) else { continue }
            // A lease that cannot be released now lapses at the end of its TTL.
            loopCoordinator.releaseLock(name, token: lease.token, completion: Completion { _, _ in true })
        }
    }
}

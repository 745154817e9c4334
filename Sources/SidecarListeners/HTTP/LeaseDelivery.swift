internal import Interlock
internal import InterlockCore
internal import NIOHTTP1
internal import SidecarTelemetry

/// Acquires locks for a client, and releases them if the client disconnects before it gets the response.
///
/// A lease of an owner that the client has chosen is not released, because a retry by that owner may hold the same
/// lease.
struct LeaseDelivery: Sendable {
    let coordinator: Coordinator

    /// Acquires one lock, or several together. Call this on the event loop.
    /// - Parameters:
    ///   - span: the span of the request; `nil` if the request is not traced.
    ///   - granted: answers with the leases, in the order of the request. Returns `false` if the client has left; the
    ///     coordinator then releases the leases.
    func acquire(_ body: LockBody, _ responder: HTTPResponder, for span: Span?, granted: @escaping ([Lease]) -> Bool) {
        guard let others = body.others else { return acquire(body.request, responder, for: span) { granted([$0]) } }
        let calls = coordinator.callsOnEventLoop()
        let trace = span.map { StepTrace(.acquire, body.request.name.text, wait: body.request.wait, of: $0, calls: calls) }
        let request = JointLockRequest(names: [body.request.name] + others, template: body.request)
        let pending = calls.acquireLocks(
            request,
            completion: Completion { _, result in
                trace?.answered(result)
                return switch result {
                case .granted(let leases): responder.isAwaited && granted(leases)
                case .held: responder.fail(HTTPProblem.held(oneOf: others.count + 1))
                case .failed(let error): responder.fail(error)
                }
            })
        responder.cancelOnDisconnect(pending, calls)
    }

    /// - Parameter ended: called once, whatever the outcome.
    func acquire(
        _ request: LockRequest, _ responder: HTTPResponder, for span: Span?, ended: @escaping () -> Void = {},
        granted: @escaping (Lease) -> Bool
    ) {
        let calls = coordinator.callsOnEventLoop()
        let trace = span.map { StepTrace(.acquire, request.name.text, wait: request.wait, of: $0, calls: calls) }
        let pending = calls.acquireLock(
            request,
            completion: Completion { _, result in
                defer { ended() }
                trace?.answered(result)
                return switch result {
                case .granted(let lease): responder.isAwaited && granted(lease)
                case .held: responder.fail(HTTPProblem.held(request.name))
                case .failed(let error): responder.fail(error)
                }
            })
        responder.cancelOnDisconnect(pending, calls, then: ended)
    }

    /// Returns the response that contains the leases, which are released if the response cannot be delivered.
    func response(_ fields: KeyValuePairs<String, JSONValue>, with leases: [Lease], of owner: String?) -> HTTPResponse {
        var response = HTTPResponse.object(fields, .created)
        response.ifUndelivered = { releaseUndelivered(leases, of: owner) }
        return response
    }

    /// Releases leases that their client has not received, unless it chose the owner. Call this on the event loop.
    func releaseUndelivered(_ leases: [Lease], of owner: String?) {
        guard owner == nil else { return }
        let calls = coordinator.callsOnEventLoop()
        for lease in leases {
            guard let name = try? ResourceName(lease.name) else { continue }
            // A lease that cannot be released now lapses by itself.
            calls.releaseLock(name, token: lease.token, completion: Completion { _, _ in true })
        }
    }
}

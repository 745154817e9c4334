internal import Interlock
internal import InterlockCore
internal import NIOCore
internal import Synchronization

/// Asks the coordinator for leave to call a service: one hop to its event loop and one back.
struct ProxyPermits: Sendable {
    let coordinator: Coordinator

    /// What was answered, and the service it concerns as it is configured now.
    struct Admission: Sendable {
        var upstream: UpstreamSettings
        var concurrency: Int?
        var decision: Decision
    }

    enum Decision: Sendable {
        case granted(ProxyPermit, BreakerSnapshot.State)
        case refused(Refusal)
        case failed(InterlockError)
    }

    struct Refusal: Sendable {
        var reason: PermitAnswer.Reason
        var state: BreakerSnapshot.State
        /// In milliseconds; -1: nobody knows.
        var retryAfter: Int64
        /// Why the breaker is open.
        var cause: String
        /// The service's.
        var limits: [LimitDefinition]
    }

    /// - Parameters:
    ///   - since: when the call came in; its patience runs from then.
    ///   - mayWait: whether it waits for its turn, where the service is configured so.
    /// - Throws: `InterlockError` when there is no such service, or the client left; `HTTPProblem` when it is not one that is
    ///   called through this door.
    func acquire(
        _ service: String, subject: String?, since: NIODeadline, mayWait: Bool, for peer: PeerPresence
    ) async throws -> Admission {
        let request = ProxyPermitRequest(
            service: service, subject: subject, since: since, mayWait: mayWait, coordinator: coordinator)
        let eventLoop = coordinator.eventLoop
        let observer = peer.observe { eventLoop.execute { request.giveUp() } }
        defer { peer.forget(observer) }
        let answer = await withCheckedContinuation { continuation in
            eventLoop.execute { request.ask(continuation) }
        }
        return try answer.get()
    }
}

/// One call's request for a permit.
///
/// Sendable without a lock because it is touched on the coordinator's event loop only; others merely pass it there.
private final class ProxyPermitRequest: @unchecked Sendable {
    typealias Answer = Result<ProxyPermits.Admission, any Error>

    private let service: String
    private let subject: String?
    private let since: NIODeadline
    private let mayWait: Bool
    private let coordinator: Coordinator
    private var continuation: CheckedContinuation<Answer, Never>?
    private var pending: PendingCall?
    private var isGivenUp = false

    init(service: String, subject: String?, since: NIODeadline, mayWait: Bool, coordinator: Coordinator) {
        self.service = service
        self.subject = subject
        self.since = since
        self.mayWait = mayWait
        self.coordinator = coordinator
    }

    func ask(_ continuation: CheckedContinuation<Answer, Never>) {
        self.continuation = continuation
        guard !isGivenUp else { return answer(.failure(HTTPProblem.clientHasLeft)) }
        let calls = coordinator.callsOnEventLoop()
        let reference: ServiceReference
        switch calls.service(service) {
        case .success(let known): reference = known
        case .failure(let error): return answer(.failure(error))
        }
        guard let definition = calls.definition(ofService: service), let upstream = definition.upstream else {
            return answer(.failure(HTTPProblem.notProxied(service)))
        }
        let completion = Completion<PermitAnswer> { [self] _, decided in
            guard self.continuation != nil else { return false }
            let decision = decision(decided, definition, calls)
            answer(.success(.init(upstream: upstream, concurrency: definition.concurrency, decision: decision)))
            return true
        }
        pending = calls.acquirePermit(
            reference, cost: 1, subject: subject, waitMilliseconds: mayWait ? patience(definition, upstream) : 0,
            now: calls.now(), completion: completion)
    }

    func giveUp() {
        isGivenUp = true
        guard continuation != nil else { return }
        if let pending { coordinator.callsOnEventLoop().cancel(pending) }
        answer(.failure(HTTPProblem.clientHasLeft))
    }

    private func answer(_ answer: Answer) {
        let waiting = continuation
        continuation = nil
        pending = nil
        waiting?.resume(returning: answer)
    }

    /// How long the call may still wait, in milliseconds.
    private func patience(_ definition: ServiceDefinition, _ upstream: UpstreamSettings) -> Int64 {
        guard definition.onLimit.action != .deny else { return 0 }
        let longest = min(definition.onLimit.patience, upstream.totalTimeout).wholeMilliseconds
        return max(0, longest - (NIODeadline.now() - since).nanoseconds / 1_000_000)
    }

    private func decision(
        _ answer: PermitAnswer, _ definition: ServiceDefinition, _ calls: CoordinatorCalls
    ) -> ProxyPermits.Decision {
        switch answer {
        case .granted(let id, let state):
            return .granted(ProxyPermit(id, service: service, coordinator: coordinator), state)
        case .refused(let reason, let state, let retryAfter):
            return .refused(
                .init(reason: reason, state: state, retryAfter: retryAfter, cause: cause(calls), limits: definition.limits))
        case .failed(let error):
            return .failed(error)
        }
    }

    /// Why the breaker is open; `local`: it is so for this sidecar alone.
    private func cause(_ calls: CoordinatorCalls) -> String {
        guard case .success(let status) = calls.breaker(service: service) else { return "" }
        return status.fleet.state == .closed && status.fleet.forced == nil ? "local" : status.fleet.cause
    }
}

/// Leave to make one call, whose outcome is reported once. One that is dropped unreported says nothing of the service.
final class ProxyPermit: Sendable {
    private let coordinator: Coordinator
    private let service: String
    private let id: PermitID
    private let isReported = Atomic(false)

    init(_ id: PermitID, service: String, coordinator: Coordinator) {
        self.id = id
        self.service = service
        self.coordinator = coordinator
    }

    deinit {
        report(OutcomeReport(outcome: .ignore))
    }

    /// Says what became of the call; does not wait until it is taken note of. Only the first report counts.
    func report(_ report: OutcomeReport) {
        guard !isReported.exchange(true, ordering: .relaxed) else { return }
        coordinator.eventLoop.execute { [coordinator, service, id] in
            coordinator.callsOnEventLoop().reportPermit(
                service: service, permit: id, report, completion: Completion { _, _ in true })
        }
    }
}

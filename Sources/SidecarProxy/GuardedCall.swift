internal import Interlock
internal import InterlockCore
internal import InterlockHTTP
internal import Logging
internal import NIOCore
internal import NIOHTTP1
internal import SidecarListeners
internal import SidecarSettings
internal import SidecarTelemetry

/// A call through the proxy. Executes the actions of `ProxiedCallStateMachine`. Confined to the coordinator's event
/// loop, as are the connections of its client and its upstream.
final class GuardedCall: HTTPRelay, PacedCall {
    private typealias Machine = ProxiedCallStateMachine

    /// A response held back because a retry may replace it.
    private struct HeldResponse {
        let head: HTTPResponseHead
        var parts: [ByteBuffer] = []
        var trailers: HTTPHeaders?
    }

    private let call: HTTPCall
    private let hasBody: Bool
    private let isForWebSocket: Bool
    private let isGRPC: Bool
    private let responder: HTTPResponder
    private let service: String
    private let target: ProxyTarget
    private let subject: String?
    private let coordinator: LoopBoundCoordinator
    private let upstreams: Upstreams
    private let logger: Logger
    private var machine: Machine
    /// The pacer, which counts the call as in progress; `nil` while the call waits to begin or to be retried.
    private var pacer: CallPacer?
    /// The permit request that is waiting for a decision; `nil` without such a request.
    private var pendingPermit: PendingCall?
    /// The service's upstream, as configured when the permit was requested.
    private var upstream: Upstream?
    /// The service's limits, as configured when the permit was requested.
    private var limits: [LimitDefinition] = []
    private var breakerState = BreakerSnapshot.State.closed
    /// The current attempt, which has a connection or waits for one.
    private var attempt: UpstreamAttempt?
    /// The start of the attempt; `nil` once its duration is recorded.
    private var attemptStartedAt: Instant?
    private var heldResponse: HeldResponse?
    private var recorder: ResponseRecorder?
    private var trace: GuardedCallTrace?
    /// The parts of the request's body that arrived before there was a connection.
    private var unsentParts: [ByteBuffer] = []
    /// The parts of the request's body that were sent, in case they must be resent.
    private var replayBuffer: ReplayBuffer
    /// The trailers of the request; `nil` if it has none, or is not complete yet.
    private var requestTrailers: HTTPHeaders?

    init(
        _ call: HTTPCall, hasBody: Bool, _ responder: HTTPResponder, service: String, target: ProxyTarget, subject: String?,
        upstreams: Upstreams, logger: Logger
    ) {
        self.call = call
        self.hasBody = hasBody
        self.responder = responder
        self.service = service
        self.target = target
        self.subject = subject
        coordinator = upstreams.coordinator
        self.upstreams = upstreams
        self.logger = logger
        replayBuffer = ReplayBuffer(countedBy: upstreams)
        isForWebSocket = !hasBody && ProxyFields.asksForWebSocket(call.head)
        isGRPC = GRPC.isUsed(in: call.head.headers)
        machine = Machine(
            .init(hasBody: hasBody, isIdempotent: call.head.method.isIdempotent, isGRPC: isGRPC),
            startedAt: Instant(nanoseconds: responder.eventLoop.uptimeNanoseconds))
    }

    private var now: Instant { Instant(nanoseconds: responder.eventLoop.uptimeNanoseconds) }

    func start() {
        trace = GuardedCallTrace(call, service: service, coordinator: coordinator)
        responder.onDisconnect { [self] in perform(machine.clientLeft(now: now)) }
        guard !machine.isOver else { return }
        upstreams.pacer.admit(self)
        guard pacer == nil, let settings = coordinator.definition(ofService: service)?.upstream else { return }
        perform(machine.waitForPacer(atMostMilliseconds: settings.maximumPacerWait.wholeMilliseconds))
    }

    var isWanted: Bool { !machine.isOver }

    func callAdmitted() {
        pacer = upstreams.pacer
        requestPermit()
    }

    func timerFired() {
        perform(machine.timerFired(now: now, isBackedUp: attempt?.isBackedUp ?? true, retries: upstream))
    }

    // MARK: Actions

    private func perform(_ action: Machine.Action) {
        switch action {
        case .none, .acquirePermit, .refuse: break
        case .setTimer: setTimer()
        case .requestPermit: requestPermit()
        case .resend: resend()
        case .fail(let failure, let report, let consequence): fail(failure, report, consequence)
        case .giveUp(let report, let consequence): giveUp(report, consequence)
        case .respond(let failure): respond(with: failure)
        case .respondOverloaded: respondOverloaded()
        case .relayHeld(let isComplete): relayHeld(isComplete: isComplete)
        }
    }

    private func setTimer() {
        guard let deadline = machine.timerDeadline else { return }
        responder.setTimer(.uptimeNanoseconds(UInt64(max(0, deadline.nanoseconds))))
    }

    private func fail(_ failure: ProxyFailure, _ report: Machine.Report?, _ consequence: Machine.Consequence) {
        endAttempt(report)
        var fields = ["service": service, "cause": failure.cause.rawValue, "error": failure.reason]
        fields["trace"] = call.span?.context.traceID.text
        logger.log(.upstreamFailed, fields)
        trace?.attemptFailed(failure.reason)
        switch consequence {
        case .pause: pauseForRetry()
        case .respond: respond(with: failure)
        case .abort:
            call.span?.fail(failure.reason)
            finish()
            responder.abort()
        }
    }

    private func giveUp(_ report: Machine.Report?, _ consequence: Machine.Consequence) {
        trace?.attemptFailed(StepTrace.givenUpReason)
        if let pendingPermit { coordinator.cancel(pendingPermit) }
        endAttempt(report)
        guard case .abort = consequence else { return end(with: HTTPProblem.clientDisconnected) }
        finish()
        responder.abort()
    }

    /// Stops counting as in progress until the next attempt.
    private func pauseForRetry() {
        leavePacer()
        replayBuffer.release()
        setTimer()
    }

    /// Releases everything that the call holds, because it is over.
    private func finish() {
        pendingPermit = nil
        releaseConnection()
        leavePacer()
        replayBuffer.release()
        trace?.callEnded()
    }

    private func leavePacer() {
        let pacer = pacer
        self.pacer = nil
        pacer?.callEnded()
    }

    private func releaseConnection() {
        heldResponse = nil
        let attempt = attempt
        self.attempt = nil
        attempt?.abandon()
    }

    private func endAttempt(_ report: Machine.Report?) {
        releaseConnection()
        recordAttempt()
        self.report(report)
    }

    private func report(_ report: Machine.Report?) {
        guard let report else { return }
        coordinator.reportPermit(
            service: service, permit: report.permit, report.outcome, completion: Completion { _, _ in true })
    }

    private func recordAttempt() {
        guard let startedAt = attemptStartedAt else { return }
        attemptStartedAt = nil
        upstream?.times.attempts.recordNanoseconds(now.nanoseconds - startedAt.nanoseconds, count: 1)
    }

    private func recordCall() {
        upstream?.times.calls.recordNanoseconds(
            now.nanoseconds - machine.startedAt.nanoseconds, trace: call.span?.context)
    }

    // MARK: Permits and attempts

    private func requestPermit() {
        let reference: ServiceReference
        switch coordinator.service(service) {
        case .success(let configuredService): reference = configuredService
        case .failure(let error): return refuse(HTTPProblem(error))
        }
        guard let definition = coordinator.definition(ofService: service), let upstream = currentUpstream(definition)
        else {
            return refuse(HTTPProblem.notProxied(service))
        }
        guard !isForWebSocket || !upstream.settings.speaksHTTP2 else { return refuse(HTTPProblem.noWebSocket(service)) }
        self.upstream = upstream
        limits = definition.limits
        let action = machine.permitRequested(
            upstream.policy, maximumWaitMilliseconds: definition.onLimit.permitWaitMilliseconds, now: now)
        guard case .acquirePermit(let waitMilliseconds) = action else { return perform(action) }
        trace?.permitRequested(waitMilliseconds: waitMilliseconds)
        let pendingPermit = coordinator.acquirePermit(
            reference, cost: 1, subject: subject, waitMilliseconds: waitMilliseconds, now: coordinator.now(),
            completion: Completion { [self] _, result in permitDecided(result, upstream) })
        if machine.isWaitingForPermit { self.pendingPermit = pendingPermit }
    }

    private func currentUpstream(_ definition: ServiceDefinition) -> Upstream? {
        definition.upstream.flatMap { upstreams.upstream(of: service, $0, concurrency: definition.concurrency) }
    }

    /// Handles the decision about the permit that was requested.
    /// - Returns: `false` if a granted permit is no longer needed.
    private func permitDecided(_ result: PermitResult, _ upstream: Upstream) -> Bool {
        guard machine.isWaitingForPermit else { return false }
        pendingPermit = nil
        trace?.permitDecided(result)
        switch result {
        case .granted(let permit, let state):
            breakerState = state
            // Sent only after the permit is granted, so that a refused client need not send its body. The write may
            // reveal that the client has disconnected.
            if machine.attemptCount == 0, hasBody, call.awaitsContinue { responder.writeContinue() }
            guard machine.permitGranted(permit, upstream.policy, now: now) == .proceed else { return false }
            releaseConnection()
            connect(upstream)
        case .refused(let reason, let state, let retryAfter):
            breakerState = state
            permitRefused(
                .refused(
                    reason, state, service: service, subject: subject, retryAfter: retryAfter,
                    cause: coordinator.breakerCause(ofService: service), limits: limits))
        // An invalid call is the caller's mistake, so the fallback must not hide it.
        case .failed(let error) where error.code == .invalid: refuse(HTTPProblem(error))
        case .failed(let error): permitRefused(HTTPProblem(error))
        }
        return true
    }

    private func permitRefused(_ problem: HTTPProblem) {
        let action = machine.permitRefused(now: now)
        guard case .refuse = action else { return perform(action) }
        if !respondWithFallback() { end(with: markedResponse(problem)) }
    }

    private func refuse(_ problem: HTTPProblem) {
        machine.reject()
        end(with: problem)
    }

    private func connect(_ upstream: Upstream) {
        if machine.attemptCount == 1 { upstream.countCall() }
        var head = HTTPRequestHead(
            version: .http1_1, method: call.head.method, uri: upstream.base.target(target),
            headers: ProxyFields.request(
                call.head, authority: upstream.base.authority, forwarded: call.forwarded, hasBody: hasBody,
                isForHTTP2: upstream.settings.speaksHTTP2))
        if isForWebSocket { ProxyFields.addUpgrade(to: &head.headers) }
        trace?.beginAttempt(number: machine.attemptCount, at: upstream.base.authority, &head.headers)
        let attempt = UpstreamAttempt(machine.attemptCount, head, to: upstream, of: self)
        self.attempt = attempt
        attemptStartedAt = now
        attempt.connect()
        setTimer()
    }

    private func resend() {
        unsentParts = replayBuffer.takeAll() + unsentParts
        if machine.isBodyAwaited { responder.setReading(false) }
        attempt?.connect(avoidsUnused: true)
        setTimer()
    }

    func connectionEstablished(_ attempt: UpstreamAttempt, _ connection: HTTPClientConnection) {
        guard machine.connectionEstablished(attempt.number, now: now) == .proceed else { return connection.abandon() }
        attempt.assign(connection)
        connection.send(attempt.head)
        let unsentParts = unsentParts
        self.unsentParts = []
        for part in unsentParts {
            replayBuffer.append(part)
            connection.send(part)
        }
        if machine.isBodyAwaited {
            connection.flush()
            responder.setReading(!attempt.isBackedUp)
        } else {
            connection.sendEnd(requestTrailers)
        }
        setTimer()
    }

    func connectionFailed(_ attempt: UpstreamAttempt, _ error: any Error) {
        fail(
            attempt, ProxyFailure(error, at: .connecting, to: attempt.upstream.base.origin), mayBeResent: false)
    }

    func upstreamFailed(_ attempt: UpstreamAttempt, _ error: any Error) {
        fail(attempt, ProxyFailure(error, at: machine.stage), mayBeResent: replayBuffer.isComplete)
    }

    private func fail(_ attempt: UpstreamAttempt, _ failure: ProxyFailure, mayBeResent: Bool) {
        perform(
            machine.upstreamFailed(failure, attempt.number, isBodyBuffered: mayBeResent, now: now, retries: upstream))
    }

    // MARK: The request

    func partReceived(_ part: ByteBuffer) {
        switch machine.requestPartReceived(now: now) {
        case .drop: break
        case .wait: unsentParts.append(part)
        case .send: attempt?.connection?.send(part)
        case .sendAndBuffer:
            replayBuffer.append(part)
            attempt?.connection?.send(part)
        }
    }

    func endReceived(_ trailers: HTTPHeaders?) {
        requestTrailers = ProxyFields.trailers(trailers)
        guard machine.requestEndReceived(now: now) == .proceed else { return }
        attempt?.connection?.sendEnd(requestTrailers)
        setTimer()
    }

    func readCompleted() {
        guard machine.requestPaused() == .proceed, let attempt else { return }
        attempt.connection?.flush()
        if attempt.isBackedUp { responder.setReading(false) }
    }

    func upstreamWritabilityChanged(_ attempt: UpstreamAttempt, _ isWritable: Bool) {
        if machine.upstreamWritabilityChanged(attempt.number) == .proceed { responder.setReading(isWritable) }
    }

    // MARK: The response

    func upstreamSentInformational(_ attempt: UpstreamAttempt, _ head: HTTPResponseHead) {
        let isContinue = head.status == .continue
        let step = machine.interimResponseReceived(
            attempt.number, isContinue: isContinue, isClientWritable: responder.isWritable)
        guard step == .proceed else { return }
        responder.writeInformational(head.status, ProxyFields.response(head.headers, isInformational: true))
    }

    func upstreamSentHead(_ attempt: UpstreamAttempt, _ head: HTTPResponseHead) {
        let (action, report) = machine.responseHeadReceived(
            summary(of: head), of: attempt.number, now: now, retries: upstream)
        guard action != .drop else { return }
        recordAttempt()
        trace?.responseReceived(head.status)
        guard action == .hold else { return relay(head) }
        pauseForRetry()
        heldResponse = HeldResponse(head: head)
        attempt.connection?.holdReading()
        trace?.attemptEnded()
        self.report(report)
    }

    private func summary(of head: HTTPResponseHead) -> Machine.Response {
        let hasBody = call.head.method != .HEAD && head.status.mayHaveResponseBody
        let isGRPC = GRPC.isUsed(in: head.headers)
        var response = Machine.Response(
            status: Int(head.status.code), isGRPC: isGRPC,
            grpcStatus: isGRPC ? GRPC.status(in: head.headers)?.httpStatus : nil,
            missingBytes: hasBody ? head.headers.first(name: "Content-Length").flatMap { Int($0) } : nil)
        let mayBeBusy = head.status == .tooManyRequests || head.status == .serviceUnavailable
        if mayBeBusy, let field = head.headers.first(name: "Retry-After") {
            response.retryAfterMilliseconds = RetryAfter.milliseconds(
                field, date: head.headers.first(name: "Date"), now: coordinator.wallTimeMilliseconds() / 1000)
        }
        return response
    }

    private func relay(_ head: HTTPResponseHead) {
        replayBuffer.release()
        setTimer()
        var headers = ProxyFields.response(head.headers)
        if let responses = upstream?.lastGood {
            recorder = ResponseRecorder(responses, LastGoodResponses.key(of: call.head), head.status, headers)
        }
        mark(&headers)
        if !headers.contains(name: "Date") { headers.add(name: "Date", value: responder.date) }
        recordCall()
        responder.write(head.status, headers)
    }

    private func relayHeld(isComplete: Bool) {
        guard let heldResponse, let attempt else { return }
        self.heldResponse = nil
        relay(heldResponse.head)
        for part in heldResponse.parts { forward(part) }
        upstreamReadCompleted(attempt)
        if isComplete {
            upstreamSentEnd(attempt, heldResponse.trailers)
        } else {
            writabilityChanged(responder.isWritable)
        }
    }

    func upstreamSent(_ attempt: UpstreamAttempt, _ part: ByteBuffer) {
        switch machine.responsePartReceived(part.readableBytes, of: attempt.number, now: now) {
        case .drop: break
        case .relay: forward(part)
        case .hold: heldResponse?.parts.append(part)
        }
    }

    private func forward(_ part: ByteBuffer) {
        recorder?.record(part)
        responder.write(part)
    }

    func upstreamReadCompleted(_ attempt: UpstreamAttempt) {
        guard machine.responsePaused(attempt.number) == .proceed else { return }
        responder.flush()
        if !responder.isWritable, machine.clientBlocked() == .proceed { attempt.connection?.holdReading() }
    }

    func writabilityChanged(_ isWritable: Bool) {
        guard isWritable, machine.clientWritable(now: now) == .proceed else { return }
        attempt?.connection?.resumeReading()
    }

    func upstreamSentEnd(_ attempt: UpstreamAttempt, _ trailers: HTTPHeaders?) {
        func grpcStatus() -> Int? { trailers.flatMap { GRPC.status(in: $0)?.httpStatus } }
        let (action, report) = machine.responseEndReceived(of: attempt.number, grpcStatus: grpcStatus())
        switch action {
        case .drop: break
        case .hold: heldResponse?.trailers = trailers
        case .relay:
            self.report(report)
            finish()
            recorder?.finish(now: responder.eventLoop.now)
            responder.writeEnd(ProxyFields.trailers(trailers))
        }
    }

    func upstreamSwitchedProtocol(
        _ attempt: UpstreamAttempt, _ head: HTTPResponseHead, _ connection: HTTPClientConnection
    ) {
        guard attempt.head.headers.contains(name: "Upgrade"), ProxyFields.namesWebSocket(head.headers) else {
            let reason = "the upstream switched protocols (status 101), but not to a WebSocket that was requested"
            return fail(attempt, ProxyFailure(cause: .broken, reason: reason), mayBeResent: false)
        }
        let report = machine.protocolSwitched(attempt.number, status: Int(head.status.code), now: now)
        guard let report else { return connection.abandon() }
        attempt.handOver()
        recordAttempt()
        self.report(report)
        trace?.responseReceived(head.status)
        recordCall()
        finish()
        var headers = ProxyFields.response(head.headers)
        ProxyFields.addUpgrade(to: &headers)
        mark(&headers)
        do {
            let policy = attempt.upstream.policy
            try Tunnel.connect(connection, on: responder.eventLoop, idleTimeoutMilliseconds: policy.idleMilliseconds) {
                try responder.switchProtocols(headers, to: $0)
            }
        } catch {
            responder.abort()
        }
    }

    // MARK: The sidecar's own responses

    private func respond(with failure: ProxyFailure) {
        if failure.cause == .client {
            end(with: HTTPProblem.clientDisconnected)
        } else if !respondWithFallback() {
            let showsAddress = call.caller.role == .admin
            end(with: markedResponse(HTTPProblem.failed(failure, service: service, showsAddress: showsAddress)))
        }
    }

    private func respondOverloaded() {
        if case .success(let status) = coordinator.breaker(service: service) { breakerState = status.state }
        if upstream == nil { upstream = coordinator.definition(ofService: service).flatMap(currentUpstream) }
        respond(with: .waited)
    }

    private func end(with problem: HTTPProblem) { end(with: isGRPC ? GRPC.response(problem) : HTTPResponse(problem)) }

    private func end(with response: HTTPResponse) {
        finish()
        recordCall()
        responder(response)
    }

    /// Adds the fields that describe this call.
    private func mark(_ headers: inout HTTPHeaders) {
        headers.add(name: HTTPTarget.serviceField, value: service)
        headers.add(name: "Interlock-State", value: breakerState.rawValue)
        headers.add(name: "Interlock-Waited", value: "\(machine.waitedNanoseconds / 1_000_000)")
    }

    /// Returns the response for a problem, with the fields that describe this call.
    private func markedResponse(_ problem: HTTPProblem) -> HTTPResponse {
        var response = isGRPC ? GRPC.response(problem) : HTTPResponse(problem)
        mark(&response.headers)
        return response
    }

    /// Responds with the service's fallback.
    /// - Returns: `false` if there is no fallback.
    private func respondWithFallback() -> Bool {
        guard let upstream else { return false }
        var response: HTTPResponse
        switch upstream.settings.fallback {
        case nil:
            return false
        case .fixed(let status, let body, let mediaType):
            response = .text(body, mediaType: mediaType)
            response.status = HTTPResponseStatus(statusCode: status)
            response.headers.add(name: "Interlock-Fallback", value: "fixed")
        case .lastGood:
            guard let responses = upstream.lastGood, let key = LastGoodResponses.key(of: call.head),
                let (stored, ageSeconds) = responses.response(for: key, now: responder.eventLoop.now)
            else { return false }
            response = HTTPResponse(stored.status)
            response.headers = stored.headers
            response.isRelayed = true
            response.body = .complete(stored.body)
            response.headers.replaceOrAdd(name: "Content-Length", value: "\(stored.body.readableBytes)")
            response.headers.replaceOrAdd(name: "Age", value: "\(stored.ageSeconds(afterSeconds: ageSeconds))")
            response.headers.add(name: "Interlock-Fallback", value: "last-good; age=\(ageSeconds)")
        }
        mark(&response.headers)
        end(with: response)
        return true
    }
}

extension HTTPMethod {
    /// Whether repeating a request has the same effect as sending it once (RFC 9110, section 9.2.2).
    var isIdempotent: Bool {
        switch self {
        case .GET, .HEAD, .PUT, .DELETE, .OPTIONS, .TRACE: true
        default: false
        }
    }
}

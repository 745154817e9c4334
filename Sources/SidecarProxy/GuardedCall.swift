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
/// loop, like the connections of its client and its upstream.
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
    private let calls: CoordinatorCalls
    private let upstreams: Upstreams
    private let logger: Logger
    private var machine: Machine
    /// The pacer, which counts the call as in progress; `nil` while the call waits to begin or to be retried.
    private var pacer: CallPacer?
    private var pending: PendingCall?
    /// The service's upstream and limits, as configured when the permit was requested.
    private var upstream: Upstream?
    private var limits: [LimitDefinition] = []
    private var breaker = BreakerSnapshot.State.closed
    /// The current try, which has a connection or waits for one.
    private var attempt: UpstreamAttempt?
    /// The start of the try; `nil` once its duration is recorded.
    private var tryBegan: Instant?
    private var held: HeldResponse?
    private var recorder: ResponseRecorder?
    private var trace: GuardedCallTrace?
    /// The part of the request's body that arrived before there was a connection.
    private var unsentParts: [ByteBuffer] = []
    /// The part of the request's body that was sent, in case it must be resent.
    private var replayBuffer: ReplayBuffer
    private var trailers: HTTPHeaders?

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
        calls = upstreams.calls
        self.upstreams = upstreams
        self.logger = logger
        replayBuffer = ReplayBuffer(countedBy: upstreams)
        isForWebSocket = !hasBody && ProxyFields.asksForWebSocket(call.head)
        isGRPC = GRPC.isUsed(in: call.head.headers)
        machine = Machine(
            .init(hasBody: hasBody, isIdempotent: call.head.method.isIdempotent, isGRPC: isGRPC),
            started: Instant(nanoseconds: responder.eventLoop.uptime))
    }

    private var now: Instant { Instant(nanoseconds: responder.eventLoop.uptime) }

    func start() {
        trace = GuardedCallTrace(call, service: service, calls: calls)
        responder.onDisconnect { [self] in perform(machine.clientLeft(now: now)) }
        guard !machine.isOver else { return }
        upstreams.pacer.begin(self)
        guard pacer == nil, let settings = calls.definition(ofService: service)?.upstream else { return }
        // Without a total timeout, the idle timeout limits the wait.
        let maximumWait = settings.totalTimeout ?? settings.idleTimeout
        perform(machine.waitForPacer(atMost: maximumWait.wholeMilliseconds))
    }

    var isWanted: Bool { !machine.isOver }

    func admitted() {
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
        endTry(report)
        var fields = ["service": service, "cause": failure.cause.rawValue, "error": failure.reason]
        fields["trace"] = call.span?.context.traceID.text
        logger.log(.upstreamFailed, fields)
        trace?.tryFailed(failure.reason)
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
        trace?.tryFailed(StepTrace.givenUpReason)
        if let pending { calls.cancel(pending) }
        endTry(report)
        guard case .abort = consequence else { return end(with: HTTPProblem.clientDisconnected) }
        finish()
        responder.abort()
    }

    /// Stops counting as in progress until the next try.
    private func pauseForRetry() {
        leavePacer()
        replayBuffer.release()
        setTimer()
    }

    /// Releases everything, once the call is over.
    private func finish() {
        pending = nil
        releaseConnection()
        leavePacer()
        replayBuffer.release()
        trace?.ended()
    }

    private func leavePacer() {
        let pacer = pacer
        self.pacer = nil
        pacer?.ended()
    }

    private func releaseConnection() {
        held = nil
        let attempt = attempt
        self.attempt = nil
        attempt?.abandon()
    }

    private func endTry(_ report: Machine.Report?) {
        releaseConnection()
        recordTry()
        self.report(report)
    }

    private func report(_ report: Machine.Report?) {
        guard let report else { return }
        calls.reportPermit(
            service: service, permit: report.permit, report.outcome, completion: Completion { _, _ in true })
    }

    private func recordTry() {
        guard let began = tryBegan else { return }
        tryBegan = nil
        upstream?.times.attempts.recordNanoseconds(now.nanoseconds - began.nanoseconds, count: 1)
    }

    private func recordCall() {
        upstream?.times.calls.recordNanoseconds(
            now.nanoseconds - machine.started.nanoseconds, trace: call.span?.context)
    }

    // MARK: Permits and attempts

    private func requestPermit() {
        let reference: ServiceReference
        switch calls.service(service) {
        case .success(let found): reference = found
        case .failure(let error): return refuse(HTTPProblem(error))
        }
        guard let definition = calls.definition(ofService: service), let upstream = configured(definition) else {
            return refuse(HTTPProblem.notProxied(service))
        }
        guard !isForWebSocket || !upstream.settings.speaksHTTP2 else { return refuse(HTTPProblem.noWebSocket(service)) }
        self.upstream = upstream
        limits = definition.limits
        let onLimit = definition.onLimit
        let maximumWait = onLimit.action == .deny ? 0 : onLimit.maximumWait.wholeMilliseconds
        let action = machine.permitRequested(upstream.policy, maximumWait: maximumWait, now: now)
        guard case .acquirePermit(let wait) = action else { return perform(action) }
        trace?.permitRequested(wait: wait)
        let pending = calls.acquirePermit(
            reference, cost: 1, subject: subject, waitMilliseconds: wait, now: calls.now(),
            completion: Completion { [self] _, result in permitDecided(result, upstream) })
        if machine.isWaitingForPermit { self.pending = pending }
    }

    private func configured(_ definition: ServiceDefinition) -> Upstream? {
        definition.upstream.flatMap { upstreams.upstream(of: service, $0, concurrency: definition.concurrency) }
    }

    /// - Returns: `false` if a granted permit is no longer needed.
    private func permitDecided(_ result: PermitResult, _ upstream: Upstream) -> Bool {
        guard machine.isWaitingForPermit else { return false }
        pending = nil
        trace?.permitDecided(result)
        switch result {
        case .granted(let permit, let state):
            breaker = state
            // Written only after the permit, so that a refused client need not send its body. The write may reveal that
            // the client has disconnected.
            if machine.attempts == 0, hasBody, call.awaitsContinue { responder.writeContinue() }
            guard machine.permitGranted(permit, upstream.policy, now: now) == .proceed else { return false }
            releaseConnection()
            connect(upstream)
        case .refused(let reason, let state, let retryAfter):
            breaker = state
            permitRefused(
                .refused(
                    reason, state, service: service, subject: subject, retryAfter: retryAfter,
                    cause: calls.breakerCause(ofService: service), limits: limits))
        // An invalid call is the caller's mistake, so the fallback must not hide it.
        case .failed(let error) where error.code == .invalid: refuse(HTTPProblem(error))
        case .failed(let error): permitRefused(HTTPProblem(error))
        }
        return true
    }

    private func permitRefused(_ problem: HTTPProblem) {
        let action = machine.permitRefused(now: now)
        guard case .refuse = action else { return perform(action) }
        if !fallBack() { end(with: marked(problem)) }
    }

    private func refuse(_ problem: HTTPProblem) {
        machine.reject()
        end(with: problem)
    }

    private func connect(_ upstream: Upstream) {
        if machine.attempts == 1 { upstream.noteCall() }
        var head = HTTPRequestHead(
            version: .http1_1, method: call.head.method, uri: upstream.base.target(target),
            headers: ProxyFields.request(
                call.head, authority: upstream.base.authority, forwarded: call.forwarded, hasBody: hasBody,
                isForHTTP2: upstream.settings.speaksHTTP2))
        if isForWebSocket { ProxyFields.addUpgrade(to: &head.headers) }
        trace?.beginAttempt(number: machine.attempts, at: upstream.base.authority, &head.headers)
        let attempt = UpstreamAttempt(machine.attempts, head, to: upstream, of: self)
        self.attempt = attempt
        tryBegan = now
        attempt.connect()
        setTimer()
    }

    private func resend() {
        unsentParts = replayBuffer.takeAll() + unsentParts
        if machine.isBodyAwaited { responder.read(false) }
        attempt?.connect(avoidsUnused: true)
        setTimer()
    }

    func connected(_ attempt: UpstreamAttempt, _ connection: HTTPClientConnection) {
        guard machine.connected(attempt.number, now: now) == .proceed else { return connection.abandon() }
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
            responder.read(!attempt.isBackedUp)
        } else {
            connection.sendEnd(trailers)
        }
        setTimer()
    }

    func notConnected(_ attempt: UpstreamAttempt, _ error: any Error) {
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

    func received(_ part: ByteBuffer) {
        switch machine.requestPart(now: now) {
        case .drop: break
        case .wait: unsentParts.append(part)
        case .send: attempt?.connection?.send(part)
        case .sendAndBuffer:
            replayBuffer.append(part)
            attempt?.connection?.send(part)
        }
    }

    func receivedEnd(_ trailers: HTTPHeaders?) {
        self.trailers = ProxyFields.trailers(trailers)
        guard machine.requestEnd(now: now) == .proceed else { return }
        attempt?.connection?.sendEnd(self.trailers)
        setTimer()
    }

    func readComplete() {
        guard machine.requestPaused() == .proceed, let attempt else { return }
        attempt.connection?.flush()
        if attempt.isBackedUp { responder.read(false) }
    }

    func upstreamWritabilityChanged(_ attempt: UpstreamAttempt, _ isWritable: Bool) {
        if machine.upstreamWritabilityChanged(attempt.number) == .proceed { responder.read(isWritable) }
    }

    // MARK: The response

    func upstreamSentInformational(_ attempt: UpstreamAttempt, _ head: HTTPResponseHead) {
        let isContinue = head.status == .continue
        guard
            machine.informational(attempt.number, isContinue: isContinue, isClientWritable: responder.isWritable) == .proceed
        else { return }
        responder.writeInformational(head.status, ProxyFields.response(head.headers, isInformational: true))
    }

    func upstreamSentHead(_ attempt: UpstreamAttempt, _ head: HTTPResponseHead) {
        let (action, report) = machine.responseHead(summary(of: head), of: attempt.number, now: now, retries: upstream)
        guard action != .drop else { return }
        recordTry()
        trace?.answered(head.status)
        guard action == .hold else { return relay(head) }
        pauseForRetry()
        held = HeldResponse(head: head)
        attempt.connection?.holdReading()
        trace?.tryEnded()
        self.report(report)
    }

    private func summary(of head: HTTPResponseHead) -> Machine.Response {
        let hasBody = call.head.method != .HEAD && head.status.mayHaveResponseBody
        let isGRPC = GRPC.isUsed(in: head.headers)
        let mayBeBusy = head.status == .tooManyRequests || head.status == .serviceUnavailable
        let retryAfter = mayBeBusy ? head.headers.first(name: "Retry-After") : nil
        return Machine.Response(
            status: Int(head.status.code), isGRPC: isGRPC,
            grpcStatus: isGRPC ? GRPC.status(in: head.headers)?.httpStatus : nil,
            missing: hasBody ? head.headers.first(name: "Content-Length").flatMap { Int($0) } : nil,
            retryAfter: retryAfter.flatMap {
                RetryAfter.milliseconds($0, date: head.headers.first(name: "Date"), now: calls.wallTime() / 1000)
            })
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
        guard let held, let attempt else { return }
        self.held = nil
        relay(held.head)
        for part in held.parts { forward(part) }
        upstreamReadComplete(attempt)
        if isComplete { upstreamSentEnd(attempt, held.trailers) } else { writabilityChanged(responder.isWritable) }
    }

    func upstreamSent(_ attempt: UpstreamAttempt, _ part: ByteBuffer) {
        switch machine.responsePart(part.readableBytes, of: attempt.number, now: now) {
        case .drop: break
        case .relay: forward(part)
        case .hold: held?.parts.append(part)
        }
    }

    private func forward(_ part: ByteBuffer) {
        recorder?.record(part)
        responder.write(part)
    }

    func upstreamReadComplete(_ attempt: UpstreamAttempt) {
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
        let (action, report) = machine.responseEnd(of: attempt.number, grpcStatus: grpcStatus())
        switch action {
        case .drop: break
        case .hold: held?.trailers = trailers
        case .relay:
            self.report(report)
            finish()
            recorder?.finish(now: responder.eventLoop.now)
            responder.writeEnd(ProxyFields.trailers(trailers))
        }
    }

    func upstreamSwitchedProtocols(_ attempt: UpstreamAttempt, _ head: HTTPResponseHead, _ connection: HTTPClientConnection) {
        guard attempt.head.headers.contains(name: "Upgrade"), ProxyFields.namesWebSocket(head.headers) else {
            return fail(
                attempt, ProxyFailure(cause: .broken, reason: "the response's status is 101"), mayBeResent: false)
        }
        let report = machine.switchedProtocols(attempt.number, status: Int(head.status.code), now: now)
        guard let report else { return connection.abandon() }
        attempt.handOver()
        recordTry()
        self.report(report)
        trace?.answered(head.status)
        recordCall()
        finish()
        var headers = ProxyFields.response(head.headers)
        ProxyFields.addUpgrade(to: &headers)
        mark(&headers)
        do {
            try Tunnel.connect(connection, on: responder.eventLoop, idleTimeout: attempt.upstream.policy.idle) {
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
        } else if !fallBack() {
            let showsAddress = call.caller.role == .admin
            end(with: marked(HTTPProblem.failed(failure, service: service, showsAddress: showsAddress)))
        }
    }

    private func respondOverloaded() {
        if case .success(let status) = calls.breaker(service: service) { breaker = status.state }
        if upstream == nil { upstream = calls.definition(ofService: service).flatMap(configured) }
        respond(with: .waited)
    }

    private func end(with problem: HTTPProblem) { end(with: isGRPC ? GRPC.response(problem) : HTTPResponse(problem)) }

    private func end(with response: HTTPResponse) {
        finish()
        recordCall()
        responder(response)
    }

    private func mark(_ headers: inout HTTPHeaders) {
        headers.add(name: HTTPTarget.serviceField, value: service)
        headers.add(name: "Interlock-State", value: breaker.rawValue)
        headers.add(name: "Interlock-Waited", value: "\(machine.waited / 1_000_000)")
    }

    private func marked(_ problem: HTTPProblem) -> HTTPResponse {
        var response = isGRPC ? GRPC.response(problem) : HTTPResponse(problem)
        mark(&response.headers)
        return response
    }

    /// - Returns: `false` if there is no fallback.
    private func fallBack() -> Bool {
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
                let (stored, age) = responses.response(for: key, now: responder.eventLoop.now)
            else { return false }
            response = HTTPResponse(stored.status)
            response.headers = stored.headers
            response.isRelayed = true
            response.body = .complete(stored.body)
            response.headers.replaceOrAdd(name: "Content-Length", value: "\(stored.body.readableBytes)")
            response.headers.replaceOrAdd(name: "Age", value: "\(stored.age(after: age))")
            response.headers.add(name: "Interlock-Fallback", value: "last-good; age=\(age)")
        }
        mark(&response.headers)
        end(with: response)
        return true
    }
}

extension HTTPMethod {
    /// Whether asking twice has the same effect as asking once (RFC 9110, section 9.2.2).
    var isIdempotent: Bool {
        switch self {
        case .GET, .HEAD, .PUT, .DELETE, .OPTIONS, .TRACE: true
        default: false
        }
    }
}

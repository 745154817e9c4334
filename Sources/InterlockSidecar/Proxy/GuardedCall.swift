internal import Interlock
internal import InterlockCore
internal import InterlockHTTP
internal import Logging
internal import NIOCore
internal import NIOHTTP1

/// One call through the proxy: permit, upstream, outcome; perhaps once more; and what the client is answered. Confined to the
/// coordinator's event loop, on which its client's connection and its upstream's live too.
final class GuardedCall: HTTPRelay, UpstreamExchangeOwner, PacedCall {
    private enum Stage {
        /// It waits until it may begin, then for a permit.
        case asking(PendingCall?)
        /// It waits a little before it is tried again.
        case pausing(until: NIODeadline)
        case trying(UpstreamExchange)
        /// The answer is on its way to the client.
        case relaying(UpstreamExchange)
        case over
    }

    /// What a try came to: the answer, if there is no other.
    private enum Ending {
        case answered(HTTPResponseHead, UpstreamExchange)
        case failed(ProxyFailure)
    }

    private static let retriedStatuses: Set<UInt> = [502, 503, 504]
    /// The most informational responses of one call that are passed on.
    private static let mostInformational = 8

    private let call: HTTPCall
    private let hasBody: Bool
    private let isForWebSocket: Bool
    private let isGRPC: Bool
    private let reply: HTTPReply
    private let service: String
    private let target: ProxyTarget
    private let subject: String?
    private let calls: CoordinatorCalls
    private let upstreams: Upstreams
    private let logger: Logger
    private let started: NIODeadline
    private var deadline: NIODeadline
    private var stage = Stage.asking(nil) {
        didSet {
            switch stage {
            case .asking, .trying: break
            case .relaying: kept.release()
            case .pausing:
                leavePace()
                kept.release()
            case .over:
                leavePace()
                kept.release()
                trace?.ended()
            }
        }
    }
    private var isPaced = false
    /// As it was configured when the permit was asked for.
    private var upstream: Upstream?
    private var limits: [LimitDefinition] = []
    private var breaker = BreakerSnapshot.State.closed
    private var tries = 0
    /// Whether a try was resent, which happens once per call.
    private var isResent = false
    private var askedAt: NIODeadline
    private var triedAt = NIODeadline.uptimeNanoseconds(0)
    private var waited = TimeAmount.zero
    private var last: Ending?
    private var recorder: AnswerRecorder?
    private var trace: GuardedCallTrace?
    /// What of the body has come before there was a connection to send it on.
    private var early: [ByteBuffer] = []
    /// The part of the body that was sent, in case it must be resent.
    private var kept: KeptBody
    private var informational = 0
    private var isBodyWhole: Bool
    private var trailers: HTTPHeaders?

    init(
        _ call: HTTPCall, hasBody: Bool, _ reply: HTTPReply, service: String, target: ProxyTarget, subject: String?,
        upstreams: Upstreams, logger: Logger
    ) {
        self.call = call
        self.hasBody = hasBody
        self.reply = reply
        self.service = service
        self.target = target
        self.subject = subject
        calls = upstreams.calls
        self.upstreams = upstreams
        self.logger = logger
        started = reply.eventLoop.now
        askedAt = started
        deadline = started
        isBodyWhole = !hasBody
        kept = KeptBody(countedBy: upstreams)
        isForWebSocket = !hasBody && ProxyFields.asksForWebSocket(call.head)
        isGRPC = GRPC.isSpoken(in: call.head.headers)
    }

    func start() {
        reply.whenLeft { [self] in clientHasLeft() }
        trace = GuardedCallTrace(call, service: service, calls: calls)
        upstreams.pace.begin(self)
        guard case .asking = stage, !isPaced, let settings = calls.definition(ofService: service)?.upstream else { return }
        // Even a call without a total timeout waits only for so long.
        deadline = started + TimeAmount(settings.totalTimeout ?? settings.idleTimeout)
        reply.setAlarm(deadline)
    }

    private var now: NIODeadline { reply.eventLoop.now }

    var isWanted: Bool { if case .over = stage { false } else { true } }

    func goAhead() {
        isPaced = true
        ask()
    }

    /// It is over, or rests until it is tried again.
    private func leavePace() {
        guard isPaced else { return }
        isPaced = false
        upstreams.pace.ended()
    }

    // MARK: Permit

    private func ask() {
        let reference: ServiceReference
        switch calls.service(service) {
        case .success(let known): reference = known
        case .failure(let error): return end(with: HTTPProblem(error))
        }
        guard let definition = calls.definition(ofService: service), let settings = definition.upstream,
            let upstream = upstreams.upstream(of: service, settings, concurrency: definition.concurrency)
        else { return end(with: HTTPProblem.notProxied(service)) }
        guard !isForWebSocket || !settings.speaksHTTP2 else { return end(with: HTTPProblem.noWebSocket(service)) }
        self.upstream = upstream
        limits = definition.limits
        let now = now
        if tries == 0 { deadline = upstream.totalTimeout.map { started + $0 } ?? .distantFuture }
        askedAt = tries == 0 ? started : now
        // It has waited for the loop too long. That is not the service's failure.
        guard deadline > now else { return tooLate() }
        stage = .asking(nil)
        let wait = patience(definition, until: deadline - now)
        trace?.asks(wait: wait)
        let pending = calls.acquirePermit(
            reference, cost: 1, subject: subject, waitMilliseconds: wait, now: calls.now(),
            completion: Completion { [self] _, answer in decided(answer, upstream) })
        if case .asking = stage { stage = .asking(pending) }
    }

    /// The call's time is over before it could be made, or made again.
    private func tooLate() {
        switch last {
        case .failed(let failure): return conclude(.failed(failure))
        case .answered(_, let exchange) where exchange.isHeldWhole: if let last { return conclude(last) }
        case .answered, nil: abandonLast()
        }
        guard tries == 0 else { return conclude(.failed(.total)) }
        waited = now - started
        if case .success(let status) = calls.breaker(service: service) { breaker = status.state }
        if upstream == nil, let definition = calls.definition(ofService: service), let settings = definition.upstream {
            upstream = upstreams.upstream(of: service, settings, concurrency: definition.concurrency)
        }
        conclude(.failed(.waited))
    }

    /// How long the call may still wait, in milliseconds.
    private func patience(_ definition: ServiceDefinition, until end: TimeAmount) -> Int64 {
        guard tries == 0, definition.onLimit.action != .deny else { return 0 }
        return max(0, min(definition.onLimit.patience.wholeMilliseconds, end.nanoseconds / 1_000_000))
    }

    /// `false`: a permit that was given is not wanted any more.
    private func decided(_ answer: PermitAnswer, _ upstream: Upstream) -> Bool {
        guard case .asking = stage else { return false }
        waited = waited + (now - askedAt)
        trace?.decided(answer)
        switch answer {
        case .granted(let permit, let state):
            breaker = state
            abandonLast()
            return attempt(upstream, permit)
        case .refused(let reason, let state, let retryAfter):
            breaker = state
            instead(
                of: .refused(
                    reason, state, service: service, subject: subject, retryAfter: retryAfter,
                    cause: calls.causeOfBreaker(ofService: service), limits: limits))
        case .failed(let error) where error.code == .invalid:
            // The caller's mistake, which no fallback may hide.
            end(with: HTTPProblem(error))
        case .failed(let error):
            instead(of: HTTPProblem(error))
        }
        return true
    }

    /// There is no permit: what the last try came to counts, or what was configured for this case, or the problem.
    private func instead(of problem: HTTPProblem) {
        if let last {
            conclude(last)
        } else if !fallBack() {
            end(with: marked(problem))
        }
    }

    // MARK: Tries

    /// Returns `false` if the client has left: nobody wants the permit.
    private func attempt(_ upstream: Upstream, _ permit: PermitID) -> Bool {
        // Only now: a client that is refused need not send the body.
        if tries == 0, hasBody, call.awaitsContinue { reply.writeContinue() }
        guard case .asking = stage else { return false }
        if tries == 0 { upstream.noteCall() }
        tries += 1
        triedAt = now
        var head = HTTPRequestHead(
            version: .http1_1, method: call.head.method, uri: upstream.base.target(target),
            headers: ProxyFields.request(
                call.head, authority: upstream.base.authority, forwarded: call.forwarded, hasBody: hasBody,
                isForHTTP2: upstream.settings.speaksHTTP2))
        if isForWebSocket { ProxyFields.addUpgrade(to: &head.headers) }
        trace?.tries(number: tries, at: upstream.base.authority, &head.headers)
        let exchange = UpstreamExchange(head, to: upstream, service, permit: permit, calls: calls, owner: self)
        stage = .trying(exchange)
        exchange.begin()
        arm()
        return true
    }

    func upstreamTakes(_ exchange: UpstreamExchange) {
        let early = early
        self.early = []
        for part in early { send(part, exchange) }
        if isBodyWhole {
            exchange.sendEnd(trailers)
        } else {
            exchange.flush()
            reply.read(!exchange.isBackedUp)
        }
        arm()
    }

    private func send(_ part: ByteBuffer, _ exchange: UpstreamExchange) {
        if case .trying = stage { kept.keep(part) }
        exchange.send(part)
    }

    func upstreamMayResend() -> Bool {
        guard case .trying = stage, !isResent, let parts = kept.takeAll() else { return false }
        isResent = true
        early = parts + early
        if !isBodyWhole { reply.read(false) }
        return true
    }

    func upstreamIsResending() { arm() }

    func upstreamInforms(_ head: HTTPResponseHead) {
        // The sidecar sends `100` itself, and a client that does not read gets no further responses.
        guard case .trying = stage, head.status != .continue, informational < Self.mostInformational, reply.isWritable else {
            return
        }
        informational += 1
        reply.writeInformational(head.status, ProxyFields.answer(head.headers, isInformational: true))
    }

    func upstreamAnswers(_ head: HTTPResponseHead, _ exchange: UpstreamExchange) {
        guard case .trying = stage else { return }
        trace?.answered(head.status)
        let mayFareBetter = Self.retriedStatuses.contains(head.status.code) && exchange.retryAfterMilliseconds == nil
        guard mayFareBetter, beginRetry() else { return relay(head, exchange) }
        exchange.hold()
        trace?.tryEnded()
        exchange.reportGood()
        last = .answered(head, exchange)
    }

    func upstreamSwitches(_ head: HTTPResponseHead, _ connection: HTTPClientConnection) {
        trace?.answered(head.status)
        upstream?.times.calls.recordNanoseconds((now - started).nanoseconds, trace: call.span?.context)
        stage = .over
        var headers = ProxyFields.answer(head.headers)
        ProxyFields.addUpgrade(to: &headers)
        mark(&headers)
        do {
            let idle = upstream?.idleTimeout ?? TimeAmount(UpstreamSettings(url: "").idleTimeout)
            try Tunnel.between(connection, on: reply.eventLoop, idleTimeout: idle) {
                try reply.switchProtocols(headers, to: $0)
            }
        } catch {
            reply.breakOff()
        }
    }

    func upstreamFailed(_ failure: ProxyFailure) {
        logger.log(.upstreamFailed, fields(failure))
        trace?.tryFailed(failure.reason)
        switch stage {
        case .trying:
            if failure.mayBeRetried, beginRetry() { last = .failed(failure) } else { conclude(.failed(failure)) }
        case .relaying:
            call.span?.fail(failure.reason)
            stage = .over
            reply.breakOff()
        case .asking, .pausing, .over: break
        }
    }

    private func fields(_ failure: ProxyFailure) -> [String: String] {
        var fields = ["service": service, "cause": failure.cause.rawValue, "error": failure.reason]
        fields["trace"] = call.span?.context.traceID.text
        return fields
    }

    /// Begins the pause before a retry, which needs a permit of its own. Calls with a body and methods that are not
    /// idempotent, such as POST, are never retried. The pause is random, so that calls that failed together come apart.
    ///
    /// A resend under the same permit is another matter: see `UpstreamExchange.resend`.
    /// - Returns: `false` if the call is not retried.
    private func beginRetry() -> Bool {
        guard let upstream, tries <= upstream.settings.retries.attempts, !hasBody, call.head.method.isIdempotent
        else { return false }
        let now = now
        let pause = upstreams.drawPause()
        guard deadline - now > pause, upstream.takeRetry() else { return false }
        stage = .pausing(until: now + pause)
        arm()
        return true
    }

    /// An answer that nobody will read holds no connection.
    private func abandonLast() {
        if case .answered(_, let exchange)? = last { exchange.abandon() }
        last = nil
    }

    // MARK: The request's body

    func received(_ part: ByteBuffer) {
        switch stage {
        case .asking, .pausing: early.append(part)
        case .trying(let exchange), .relaying(let exchange):
            if exchange.isConnected { send(part, exchange) } else { early.append(part) }
        case .over: break
        }
    }

    func receivedEnd(_ trailers: HTTPHeaders?) {
        isBodyWhole = true
        let trailers = ProxyFields.trailers(trailers)
        self.trailers = trailers
        switch stage {
        case .trying(let exchange), .relaying(let exchange):
            guard exchange.isConnected else { return }
            exchange.sendEnd(trailers)
            arm()
        case .asking, .pausing, .over: break
        }
    }

    func receivedAllThereIs() {
        guard !isBodyWhole else { return }
        switch stage {
        case .trying(let exchange), .relaying(let exchange):
            guard exchange.isConnected else { return }
            exchange.flush()
            if exchange.isBackedUp { reply.read(false) }
        case .asking, .pausing, .over: break
        }
    }

    func upstreamIsWritable(_ isWritable: Bool) {
        if !isBodyWhole { reply.read(isWritable) }
    }

    // MARK: The answer

    private func conclude(_ ending: Ending) {
        last = nil
        switch ending {
        case .answered(let head, let exchange):
            if let failure = exchange.brokenWhileHeld {
                exchange.abandon()
                return conclude(.failed(failure))
            }
            relay(head, exchange)
            exchange.release()
        case .failed(let failure) where failure.cause == .client:
            end(with: HTTPProblem.clientHasLeft)
        case .failed(let failure):
            if !fallBack() { end(with: marked(HTTPProblem.failed(failure, service: service))) }
        }
    }

    private func relay(_ head: HTTPResponseHead, _ exchange: UpstreamExchange) {
        stage = .relaying(exchange)
        arm()
        var headers = ProxyFields.answer(head.headers)
        if let answers = upstream?.lastGood {
            recorder = AnswerRecorder(answers, LastGoodAnswers.key(of: call.head), head.status, headers)
        }
        mark(&headers)
        if !headers.contains(name: "Date") { headers.add(name: "Date", value: reply.date) }
        upstream?.times.calls.recordNanoseconds((now - started).nanoseconds, trace: call.span?.context)
        reply.write(head.status, headers)
    }

    func upstreamSent(_ part: ByteBuffer) {
        recorder?.record(part)
        reply.write(part)
    }

    func upstreamSentAllThereIs() {
        guard case .relaying(let exchange) = stage else { return }
        reply.flush()
        if !reply.isWritable { exchange.holdReading() }
    }

    func writabilityChanged(_ isWritable: Bool) {
        guard isWritable, case .relaying(let exchange) = stage else { return }
        exchange.resumeReading()
    }

    func upstreamSentEnd(_ trailers: HTTPHeaders?) {
        stage = .over
        recorder?.finish(now: now)
        reply.writeEnd(ProxyFields.trailers(trailers))
    }

    // MARK: Ends

    private func clientHasLeft() {
        trace?.tryFailed(StepTrace.givenUpReason)
        switch stage {
        case .asking(let pending):
            stage = .over
            if let pending { calls.cancel(pending) }
            end(with: HTTPProblem.clientHasLeft)
        case .pausing: end(with: HTTPProblem.clientHasLeft)
        case .trying(let exchange):
            exchange.abandon()
            end(with: HTTPProblem.clientHasLeft)
        case .relaying(let exchange):
            stage = .over
            exchange.abandon()
            reply.breakOff()
        case .over: break
        }
    }

    /// Sees to it that `alarm` is called when there is something to do.
    private func arm() {
        switch stage {
        // While it waits to begin, `start` has seen to it; afterwards its answer is bounded in time.
        case .asking, .over: break
        case .pausing(let until): reply.setAlarm(until)
        case .trying(let exchange), .relaying(let exchange): reply.setAlarm(exchange.due.map { min($0, deadline) } ?? deadline)
        }
    }

    func alarm() {
        let now = now
        switch stage {
        case .asking:
            // Those that have begun to ask are bounded by what they ask for.
            if !isPaced, tries == 0, deadline <= now { tooLate() }
        case .over: break
        case .pausing(let until): if until <= now { ask() } else { arm() }
        case .trying(let exchange), .relaying(let exchange):
            let isClientAwaited = isClientAwaited(exchange)
            if deadline <= now {
                if isClientAwaited {
                    exchange.fail(.clientIsSlow)
                } else if exchange.isAnswering {
                    exchange.totalIsOver()
                } else {
                    exchange.fail(hadTime ? .total : .rest)
                }
            } else if let due = exchange.due, due <= now {
                exchange.timeIsOver(isClientAwaited: isClientAwaited)
            } else {
                arm()
            }
        }
    }

    /// Whether the time had not mostly gone by in waiting before the service was asked.
    private var hadTime: Bool {
        let total = deadline - started
        return waited.nanoseconds < total.nanoseconds / 2 || (deadline - triedAt).nanoseconds >= total.nanoseconds / 4
    }

    /// Whether the call would go on if the client sent more, or read more.
    private func isClientAwaited(_ exchange: UpstreamExchange) -> Bool {
        // A stream of gRPC's stays open for as long as either side has something to say: there it is the service that is late.
        exchange.isReadHeld || !isGRPC && exchange.isConnected && !isBodyWhole && !exchange.isBackedUp
    }

    private func end(with problem: HTTPProblem) { end(with: isGRPC ? GRPC.answer(problem) : HTTPAnswer(problem)) }

    private func end(with answer: HTTPAnswer) {
        abandonLast()
        stage = .over
        upstream?.times.calls.recordNanoseconds((now - started).nanoseconds, trace: call.span?.context)
        reply(answer)
    }

    private func mark(_ headers: inout HTTPHeaders) {
        headers.add(name: HTTPTarget.serviceField, value: service)
        headers.add(name: "Interlock-State", value: breaker.rawValue)
        headers.add(name: "Interlock-Waited", value: "\(waited.nanoseconds / 1_000_000)")
    }

    private func marked(_ problem: HTTPProblem) -> HTTPAnswer {
        var answer = isGRPC ? GRPC.answer(problem) : HTTPAnswer(problem)
        mark(&answer.headers)
        return answer
    }

    /// Answers what was configured for this case. `false`: nothing was.
    private func fallBack() -> Bool {
        guard let upstream else { return false }
        var answer: HTTPAnswer
        switch upstream.settings.fallback {
        case nil:
            return false
        case .fixed(let status, let body, let mediaType):
            answer = .text(body, mediaType: mediaType)
            answer.status = HTTPResponseStatus(statusCode: status)
            answer.headers.add(name: "Interlock-Fallback", value: "fixed")
        case .lastGood:
            guard let answers = upstream.lastGood, let key = LastGoodAnswers.key(of: call.head),
                let (kept, age) = answers.answer(for: key, now: now)
            else { return false }
            answer = HTTPAnswer(kept.status)
            answer.headers = kept.headers
            answer.isRelayed = true
            answer.body = .whole(kept.body)
            answer.headers.replaceOrAdd(name: "Content-Length", value: "\(kept.body.readableBytes)")
            answer.headers.replaceOrAdd(name: "Age", value: "\(kept.age(after: age))")
            answer.headers.add(name: "Interlock-Fallback", value: "last-good; age=\(age)")
        }
        mark(&answer.headers)
        end(with: answer)
        return true
    }
}

extension HTTPMethod {
    /// To ask twice comes to the same as to ask once (RFC 9110, section 9.2.2).
    var isIdempotent: Bool {
        switch self {
        case .GET, .HEAD, .PUT, .DELETE, .OPTIONS, .TRACE: true
        default: false
        }
    }
}

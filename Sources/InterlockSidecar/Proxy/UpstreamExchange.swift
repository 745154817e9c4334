internal import Interlock
internal import InterlockCore
internal import InterlockHTTP
internal import NIOCore
internal import NIOHTTP1

/// What a call is told of one try.
protocol UpstreamExchangeOwner: AnyObject {
    /// The request's head is sent; its body may follow.
    func upstreamTakes(_ exchange: UpstreamExchange)
    /// Returns whether everything sent of the request's body can be resent. If so, `upstreamTakes` or a failure
    /// follows.
    func upstreamMayResend() -> Bool
    /// Begins its times anew: the request is sent once more.
    func upstreamIsResending()
    /// Passes on an informational response; the answer or another such response follows.
    func upstreamInforms(_ head: HTTPResponseHead)
    func upstreamAnswers(_ head: HTTPResponseHead, _ exchange: UpstreamExchange)
    /// More of the answer's body.
    func upstreamSent(_ part: ByteBuffer)
    /// All that has arrived so far was handed over.
    func upstreamSentAllThereIs()
    /// The answer is whole.
    func upstreamSentEnd(_ trailers: HTTPHeaders?)
    /// It came to nothing, or broke off.
    func upstreamFailed(_ failure: ProxyFailure)
    /// The upstream takes more of the body, or no more for now.
    func upstreamIsWritable(_ isWritable: Bool)
    /// It speaks another protocol from now on, as it was asked to; the exchange is over.
    func upstreamSwitches(_ head: HTTPResponseHead, _ connection: HTTPClientConnection)
}

/// One call to an upstream, with the permit that it was given; what comes of it is reported once. Confined to the coordinator's event
/// loop.
final class UpstreamExchange: HTTPClientReceiver {
    /// What was handed over while nobody took it.
    private struct Held {
        var parts: [ByteBuffer] = []
        var end: HTTPHeaders??
        var failure: ProxyFailure?
    }

    private let upstream: Upstream
    private let head: HTTPRequestHead
    private let service: String
    private let calls: CoordinatorCalls
    private var owner: (any UpstreamExchangeOwner)?
    private var permit: PermitID?
    private var connection: HTTPClientConnection?
    private var stage = ProxyFailure.Stage.connecting
    private var status: Int?
    private var retryAfter: Int64?
    /// Where the call's outcome is not in the answer's status: what it says at the head, until it is said at the end.
    private var isGRPC = false
    private var held: Held?
    /// The time at which the whole request was sent; `nil` before that.
    private var sentAllAt: NIODeadline?
    /// The time at which the first attempt began.
    private var began: NIODeadline?
    private var isMeasured = false
    /// The time between the end of the request and the start of its answer.
    private var latency: Int64?
    /// The deadline for the connection or for the answer's first byte.
    private var limit: NIODeadline?
    /// The time of the last byte, in either direction, once there is a connection.
    private var passedAt = NIODeadline.uptimeNanoseconds(0)
    /// The missing part of the answer's declared length; `nil` if it declares none.
    private var owed: Int?
    /// Whether this is the one extra attempt, beyond the configured retries.
    private var isResent = false
    /// Whether no more of the answer is read for now.
    private(set) var isReadHeld = false

    init(
        _ head: HTTPRequestHead, to upstream: Upstream, _ service: String, permit: PermitID, calls: CoordinatorCalls,
        owner: any UpstreamExchangeOwner
    ) {
        self.head = head
        self.upstream = upstream
        self.service = service
        self.permit = permit
        self.calls = calls
        self.owner = owner
    }

    private var now: NIODeadline { upstream.pool.eventLoop.now }

    func begin() {
        let now = now
        if began == nil { began = now }
        passedAt = now
        upstream.pool.lease(for: self, avoidsUnused: isResent)
        if case .connecting = stage, owner != nil { limit = now + upstream.connectTimeout }
    }

    /// The time at which the exchange ends if nothing happens. The owner ends the whole call.
    var due: NIODeadline? {
        guard owner != nil else { return nil }
        if let limit { return limit }
        if case .connecting = stage { return nil }
        return passedAt + upstream.idleTimeout
    }

    /// How long the upstream wants to be left alone, in milliseconds.
    var retryAfterMilliseconds: Int64? { retryAfter }

    // MARK: The request

    /// Whether there is a connection that takes the request, or carries the answer.
    var isConnected: Bool { connection != nil }

    func send(_ part: ByteBuffer) {
        passedAt = now
        connection?.send(part)
    }

    func sendEnd(_ trailers: HTTPHeaders?) {
        guard sentAllAt == nil else { return }
        let now = now
        sentAllAt = now
        passedAt = now
        if case .sent = stage { limit = now + upstream.firstByteTimeout }
        connection?.sendEnd(trailers)
    }

    func flush() { connection?.flush() }

    /// Whether the upstream has not taken yet what was sent to it.
    var isBackedUp: Bool { connection.map { !$0.isWritable } ?? true }

    // MARK: The answer

    /// Reads no more of the answer for now.
    func holdReading() {
        isReadHeld = true
        connection?.holdReading()
    }

    func resumeReading() {
        isReadHeld = false
        passedAt = now
        connection?.resumeReading()
    }

    /// Keeps what comes until `release`.
    func hold() {
        held = Held()
        holdReading()
    }

    /// Hands over what came meanwhile, and what still comes.
    func release() {
        guard let held else { return }
        self.held = nil
        isReadHeld = false
        for part in held.parts { owner?.upstreamSent(part) }
        owner?.upstreamSentAllThereIs()
        if let failure = held.failure {
            fail(failure)
        } else if let end = held.end {
            ended(end)
        } else if !isReadHeld {
            resumeReading()
        }
    }

    /// Why what was held cannot come to its end.
    var brokenWhileHeld: ProxyFailure? { held?.failure }

    /// Whether the answer is held to its end.
    var isHeldWhole: Bool { held?.end != nil }

    /// It gives way to another, or nobody wants it.
    func abandon() { end(.clientLeft) }

    /// Ends it for this reason.
    func fail(_ failure: ProxyFailure) {
        let owner = owner
        end(failure)
        owner?.upstreamFailed(failure)
    }

    /// Ends the exchange when `due` has come.
    /// - Parameter isClientAwaited: whether it is waiting for the client to send or read more.
    func timeIsOver(isClientAwaited: Bool) {
        switch stage {
        case .connecting: fail(.connectTimeout)
        case .sent where limit != nil: fail(.firstByte)
        case .sent: fail(isClientAwaited || !isBackedUp ? .clientIsSilent : .idle)
        // A stream may be silent; an answer with missing bytes has stalled.
        case .answering: fail(isClientAwaited ? .clientIsSilent : owed == nil ? .quiet : .idle)
        }
    }

    /// Ends the exchange within an answer, because the time of the whole call is over.
    func totalIsOver() {
        let isStalled = owed != nil && now - passedAt >= upstream.firstByteTimeout
        fail(isStalled ? .total : .cut)
    }

    /// Whether the answer has begun.
    var isAnswering: Bool { if case .answering = stage { true } else { false } }

    private func end(_ failure: ProxyFailure) {
        guard owner != nil else { return }
        owner = nil
        limit = nil
        let now = now
        measure(until: now)
        let connection = connection
        self.connection = nil
        if let connection { connection.abandon() } else if case .connecting = stage { upstream.pool.cancel(self) }
        switch failure.verdict {
        case .service:
            report(OutcomeReport(outcome: .error, latencyMilliseconds: latency ?? millisecondsSinceSent(now), status: status))
        case .answer: reportGood()
        // The call counts as slow if it took that long.
        case .nobody: report(.unfinished(afterMilliseconds: latency ?? millisecondsSinceSent(now)))
        }
    }

    /// What it came to is known: the head of an answer, or that there is none.
    private func measure(until now: NIODeadline) {
        guard !isMeasured, let began else { return }
        isMeasured = true
        upstream.times.tries.recordNanoseconds((now - began).nanoseconds, count: 1)
    }

    /// The time between the end of the request and `now`.
    private func millisecondsSinceSent(_ now: NIODeadline) -> Int64? {
        sentAllAt.map { (now - $0).nanoseconds / 1_000_000 }
    }

    /// The answer is good as far as it has come; what is reported first counts.
    func reportGood() {
        report(
            OutcomeReport(
                outcome: .ok, latencyMilliseconds: latency, status: status, retryAfterMilliseconds: retryAfter))
    }

    private func report(_ report: OutcomeReport) {
        guard let permit else { return }
        self.permit = nil
        calls.reportPermit(service: service, permit: permit, report, completion: Completion { _, _ in true })
    }

    // MARK: What its connection tells

    func connected(_ connection: HTTPClientConnection) {
        guard let owner else { return connection.abandon() }
        self.connection = connection
        stage = .sent
        // Without a limit the pool has answered at once, and `begin` has just set the time.
        if limit != nil {
            limit = nil
            passedAt = now
        }
        connection.send(head)
        owner.upstreamTakes(self)
    }

    func notConnected(_ error: any Error) { fail(ProxyFailure(error, at: .connecting)) }

    func receivedInformational(_ head: HTTPResponseHead) { owner?.upstreamInforms(head) }

    func received(_ head: HTTPResponseHead) {
        stage = .answering
        limit = nil
        let now = now
        passedAt = now
        if self.head.method != .HEAD, head.status.mayHaveResponseBody {
            owed = head.headers.first(name: "Content-Length").flatMap { Int($0) }
        }
        measure(until: now)
        latency = millisecondsSinceSent(now)
        status = Int(head.status.code)
        isGRPC = GRPC.isSpoken(in: head.headers)
        if isGRPC { noteGRPCStatus(head.headers) }
        if head.status == .tooManyRequests || head.status == .serviceUnavailable {
            retryAfter = head.headers.first(name: "Retry-After").flatMap {
                RetryAfter.milliseconds($0, date: head.headers.first(name: "Date"), now: calls.wallTime() / 1000)
            }
        }
        owner?.upstreamAnswers(head, self)
    }

    func received(_ part: ByteBuffer) {
        passedAt = now
        owed = owed.map { $0 - part.readableBytes }
        if held == nil { owner?.upstreamSent(part) } else { held?.parts.append(part) }
    }

    func receivedEnd(_ trailers: HTTPHeaders?) {
        // The connection carries other requests from now on.
        connection = nil
        if held == nil { ended(trailers) } else { held?.end = .some(trailers) }
    }

    /// A call of gRPC fails with the status 200 (gRPC over HTTP2, "Responses").
    private func noteGRPCStatus(_ headers: HTTPHeaders) {
        guard status == 200, let code = GRPC.status(in: headers) else { return }
        status = code.httpStatus
    }

    func switchedProtocols(_ head: HTTPResponseHead, _ connection: HTTPClientConnection) {
        stage = .answering
        guard self.head.headers.contains(name: "Upgrade"), ProxyFields.namesWebSocket(head.headers) else {
            return fail(ProxyFailure(cause: .broken, reason: "the answer's status is 101"))
        }
        let now = now
        measure(until: now)
        latency = millisecondsSinceSent(now)
        status = Int(head.status.code)
        let owner = owner
        self.owner = nil
        self.connection = nil
        reportGood()
        owner?.upstreamSwitches(head, connection)
    }

    private func ended(_ trailers: HTTPHeaders?) {
        if isGRPC, let trailers { noteGRPCStatus(trailers) }
        let owner = owner
        self.owner = nil
        reportGood()
        owner?.upstreamSentEnd(trailers)
    }

    func receivedAllThereIs() {
        if held == nil { owner?.upstreamSentAllThereIs() }
    }

    func failed(_ error: any Error) {
        connection = nil
        let failure = ProxyFailure(error, at: stage)
        if failure.mayBeResent(head.method), owner?.upstreamMayResend() ?? false { return resend() }
        if held == nil { fail(failure) } else { held?.failure = failure }
    }

    /// Resends the request once, under the same permit: nothing of an answer has arrived, and either the upstream has
    /// certainly not processed it, whatever its method, or it is idempotent and its connection was ending.
    private func resend() {
        isResent = true
        stage = .connecting
        sentAllAt = nil
        begin()
        owner?.upstreamIsResending()
    }

    func writabilityChanged(_ isWritable: Bool) { owner?.upstreamIsWritable(isWritable) }
}

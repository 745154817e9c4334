internal import HTTPTypes
internal import HummingbirdCore
internal import Interlock
internal import InterlockCore
internal import Logging
internal import NIOCore
internal import NIOHTTP1

/// One call through the proxy: permit, upstream, outcome; perhaps once more; and what the client is answered.
struct GuardedCall {
    let service: String
    let request: HTTPRequest
    let target: ProxyTarget
    let subject: String?
    let forwarded: String
    let started: NIODeadline
    let peer: PeerPresence
    /// The client's.
    let channel: any Channel
    let permits: ProxyPermits
    let upstreams: Upstreams
    let logger: Logger
    /// Whether the upstream was called at all.
    private(set) var hasBegun = false
    private var waitedMilliseconds: Int64 = 0
    private var state = BreakerSnapshot.State.closed

    /// Between a failed try and the next, at random: callers that failed together do not come back together.
    private static let pauseMilliseconds: ClosedRange<Int64> = 5...50
    private static let idempotent: Set<HTTPRequest.Method> = [.get, .head, .put, .delete, .options, .trace]
    private static let retriedStatuses: Set<Int> = [502, 503, 504]

    init(
        service: String, request: HTTPRequest, target: ProxyTarget, subject: String?, forwarded: String,
        started: NIODeadline, peer: PeerPresence, channel: any Channel, permits: ProxyPermits, upstreams: Upstreams,
        logger: Logger
    ) {
        self.service = service
        self.request = request
        self.target = target
        self.subject = subject
        self.forwarded = forwarded
        self.started = started
        self.peer = peer
        self.channel = channel
        self.permits = permits
        self.upstreams = upstreams
        self.logger = logger
    }

    /// An answer that has begun, or why none has.
    private enum Attempt {
        case answering(UpstreamAnswer)
        case failed(ProxyFailure)
    }

    /// - Parameter beforeUpload: called before the upstream gets the body.
    /// - Throws: `HTTPProblem`, `InterlockError`; what `beforeUpload` throws.
    @concurrent
    mutating func answer(upload: Upload?, beforeUpload: @concurrent () async throws -> Void) async throws -> HTTPAnswer {
        var last: Attempt?
        var tries = 0
        while true {
            let asked = NIODeadline.now()
            let admission: ProxyPermits.Admission
            do {
                admission = try await permits.acquire(service, subject: subject, since: started, mayWait: tries == 0, for: peer)
            } catch {
                Self.abandon(last)
                if let error = error as? InterlockError, error.code == .unknownService { upstreams.forget(service) }
                throw error
            }
            waitedMilliseconds += (NIODeadline.now() - asked).nanoseconds / 1_000_000
            guard
                let upstream = upstreams.upstream(
                    of: service, admission.upstream, concurrency: admission.concurrency)
            else {
                Self.abandon(last)
                throw HTTPProblem.notProxied(service)
            }
            let permit: ProxyPermit
            switch admission.decision {
            case .granted(let granted, let state):
                self.state = state
                permit = granted
            case .refused(let refusal):
                state = refusal.state
                if let last { return try conclude(last, upstream) }
                return try fallback(upstream) ?? marked(.refused(refusal, service: service, subject: subject))
            case .failed(let error) where error.code == .invalid:
                // The caller's mistake, which no fallback may hide.
                Self.abandon(last)
                throw error
            case .failed(let error):
                if let last { return try conclude(last, upstream) }
                return try fallback(upstream) ?? marked(HTTPProblem(error))
            }
            Self.abandon(last)
            if tries == 0 { upstream.noteCall() }
            if peer.hasLeft { throw HTTPProblem.clientHasLeft }
            if upload != nil { try await beforeUpload() }
            hasBegun = true
            let attempt = try await call(upstream, permit, upload)
            guard await isWorthRetry(attempt, upstream, tries: tries, hasBody: upload != nil) else {
                return try conclude(attempt, upstream)
            }
            if case .answering(let answer) = attempt { answer.reportGood() }
            last = attempt
            tries += 1
        }
    }

    /// An answer that nobody will read holds no connection.
    private static func abandon(_ attempt: Attempt?) {
        if case .answering(let answer) = attempt { answer.abandon() }
    }

    private func call(_ upstream: Upstream, _ permit: ProxyPermit, _ upload: Upload?) async throws -> Attempt {
        let deadline = started + TimeAmount(upstream.settings.totalTimeout)
        let exchange = try upstream.call(
            request, target, forwarded: forwarded, upload: upload, on: channel.eventLoop, deadline: deadline)
        let observer = peer.observe { exchange.abort(.clientLeft) }
        do throws(ProxyFailure) {
            let head = try await exchange.head()
            // Nothing of ours asks for another protocol, so that no answer can change to one.
            guard head.status.code >= 200 else {
                exchange.abort(.clientLeft)
                throw ProxyFailure(cause: .broken, reason: "the answer's status is \(head.status.code)")
            }
            return .answering(
                UpstreamAnswer(
                    head: head, exchange: exchange, permit: permit, peer: peer, observer: observer,
                    latencyMilliseconds: exchange.millisecondsSinceSent,
                    channel: channel, deadline: deadline))
        } catch {
            peer.forget(observer)
            logger.log(
                .upstreamFailed, ["service": service, "cause": error.cause.rawValue, "error": error.reason])
            let isOurs = error.cause == .client || peer.hasLeft
            permit.report(
                OutcomeReport(
                    outcome: isOurs ? .ignore : .error,
                    latencyMilliseconds: isOurs ? nil : exchange.millisecondsSinceSent))
            return .failed(peer.hasLeft ? .clientLeft : error)
        }
    }

    /// Waits a little before it says yes.
    private func isWorthRetry(_ attempt: Attempt, _ upstream: Upstream, tries: Int, hasBody: Bool) async -> Bool {
        guard tries < upstream.settings.retries.attempts, !hasBody, Self.idempotent.contains(request.method), !peer.hasLeft
        else { return false }
        switch attempt {
        case .answering(let answer):
            guard Self.retriedStatuses.contains(Int(answer.head.status.code)), answer.retryAfterMilliseconds == nil
            else { return false }
        case .failed(let failure):
            guard failure.mayBeRetried else { return false }
        }
        let pause = Int64.random(in: Self.pauseMilliseconds)
        let left = started + TimeAmount(upstream.settings.totalTimeout) - NIODeadline.now()
        guard left > .milliseconds(pause), upstream.takeRetry() else { return false }
        // Apart for each call, so that those that failed together are not tried again together.
        try? await Task.sleep(for: .milliseconds(pause))
        return !peer.hasLeft
    }

    private func conclude(_ attempt: Attempt, _ upstream: Upstream) throws -> HTTPAnswer {
        switch attempt {
        case .answering(let answer):
            let key = upstream.lastGood == nil ? nil : LastGoodAnswers.key(of: request)
            var relayed = answer.relayed(isHead: request.method == .head, keepIn: upstream.lastGood, as: key)
            mark(&relayed.headers)
            return relayed
        case .failed(let failure):
            if failure.cause == .client { throw HTTPProblem.clientHasLeft }
            return try fallback(upstream) ?? marked(.failed(failure, service: service))
        }
    }

    // MARK: What is said of the call

    private func mark(_ fields: inout HTTPFields) {
        fields[.interlockService] = service
        fields[.interlockState] = state.rawValue
        fields[.interlockWaited] = "\(waitedMilliseconds)"
    }

    private func marked(_ problem: HTTPProblem) -> HTTPAnswer {
        var answer = HTTPAnswer(problem)
        mark(&answer.headers)
        return answer
    }

    /// What is answered instead, if anything is.
    private func fallback(_ upstream: Upstream) throws -> HTTPAnswer? {
        var answer: HTTPAnswer
        switch upstream.settings.fallback {
        case nil:
            return nil
        case .fixed(let status, let body, let mediaType):
            answer = .text(body, mediaType: mediaType)
            answer.status = HTTPResponse.Status(code: status)
            answer.headers[.interlockFallback] = "fixed"
        case .lastGood:
            guard let answers = upstream.lastGood, let key = LastGoodAnswers.key(of: request),
                let (kept, age) = answers.answer(for: key, now: .now())
            else { return nil }
            answer = HTTPAnswer(kept.status)
            answer.headers = kept.fields
            answer.isRelayed = true
            answer.body = ResponseBody(byteBuffer: kept.body)
            answer.headers[.contentLength] = "\(kept.body.readableBytes)"
            answer.headers[.age] = "\(kept.age(after: age))"
            answer.headers[.interlockFallback] = "last-good; age=\(age)"
        }
        mark(&answer.headers)
        return answer
    }
}

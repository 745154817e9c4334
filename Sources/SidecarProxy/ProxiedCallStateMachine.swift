internal import InterlockCore

/// The state of one call through the proxy: its permits, its attempts, its response and their timeouts. Pure: takes
/// events and the time, and returns actions for `GuardedCall` to execute.
///
/// | state | the call | next states |
/// | --- | --- | --- |
/// | `waiting(.pacer)` | waits until the proxy lets it begin | `waiting(.permit)`; `over`, too late |
/// | `waiting(.permit)` | waits for a permit | `calling`, for a try or to relay a held response; `over`, refused |
/// | `calling` | connects, sends the request, relays the response | `waiting(.pause)`; `over` |
/// | `waiting(.pause)` | waits before another try | `waiting(.permit)`; too late: `calling`, to relay, or `over` |
///
/// A client that leaves ends the call in every state.
///
/// Each permit belongs to one try, which reports one outcome: when the response ends, when the protocol switches, when
/// the try fails, when the client leaves, or when the response is held for a retry. The result of the latest try is
/// kept while the call waits, and becomes the result of the call if no other try follows. Events of an earlier try are
/// dropped.
struct ProxiedCallStateMachine {
    struct Request {
        var hasBody = false
        var isIdempotent = true
        var isGRPC = false
    }

    /// An upstream's timeouts, in milliseconds, and its number of retries.
    struct Policy {
        let connect, firstByte, idle: Int64
        let total: Int64?
        let retries: Int

        init(_ settings: UpstreamSettings) {
            connect = settings.connectTimeout.wholeMilliseconds
            firstByte = settings.firstByteTimeout.wholeMilliseconds
            idle = settings.idleTimeout.wholeMilliseconds
            total = settings.totalTimeout?.wholeMilliseconds
            retries = settings.retries.attempts
        }
    }

    struct Report {
        let permit: PermitID
        let outcome: OutcomeReport
    }

    // MARK: Actions

    enum Action {
        case none
        /// Set the timer to `timerDeadline`.
        case setTimer
        /// Find the upstream, then call `permitRequested`, or `reject` if there is none.
        case requestPermit
        case acquirePermit(waitMilliseconds: Int64)
        /// Send the request once more for the same try, on another connection.
        case resend
        /// Release the connection, and report the failure of the try.
        case fail(ProxyFailure, Report?, then: Consequence)
        /// The client has left: release everything.
        case giveUp(Report?, then: Consequence)
        /// Respond with the failure, or the fallback.
        case respond(ProxyFailure)
        /// Respond with the fallback, or that the call waited too long to begin.
        case respondOverloaded
        /// Respond with the permit's refusal, or the fallback.
        case refuse
        /// Relay the held response, and its end if that has arrived.
        case relayHeld(isComplete: Bool)
    }

    enum Consequence {
        /// Set the timer for the next attempt.
        case pause
        case respond
        /// End the client's connection, because its response has begun.
        case abort
    }

    /// The action for a single step.
    enum Step { case proceed, refuse }

    enum RequestAction {
        case drop
        /// Keep the part until there is a connection.
        case wait
        case send
        /// Send the part, and keep it for a resend.
        case sendAndBuffer
    }

    /// The action for the head, a part or the end of a response.
    enum ResponseAction { case drop, relay, hold }

    // MARK: States

    private enum State {
        /// Carries the result of the latest try, if there was one.
        case waiting(Wait, LatestResult?)
        case calling(Attempt)
        case over
    }

    private enum Wait {
        case pacer(until: Instant)
        case permit(since: Instant)
        case pause(until: Instant)
    }

    private enum LatestResult {
        case failed(ProxyFailure)
        case held(Attempt, HeldEnd)
    }

    private enum Resend { case possible, used }

    private enum HeldEnd {
        case awaited
        case whole
        case broken(ProxyFailure)
    }

    private static let retriedStatuses: Set<Int> = [502, 503, 504]
    /// The maximum number of informational responses that are relayed for one call.
    private static let maximumInformational = 8

    private let request: Request
    let started: Instant
    private var deadline = Instant.distantFuture
    private var state = State.waiting(.pacer(until: .distantFuture), nil)
    /// Whether more of the request's body is to come.
    private(set) var isBodyAwaited: Bool
    private var informational = 0
    /// The only resend of the call. Any of its attempts may use it.
    private var resend = Resend.possible
    /// The number of attempts so far, which is also the number of the latest one.
    private(set) var attempts = 0
    /// The total time that the call waited for permits, in nanoseconds.
    private(set) var waited: Int64 = 0

    init(_ request: Request, started: Instant) {
        self.request = request
        self.started = started
        isBodyAwaited = request.hasBody
    }

    var isOver: Bool { if case .over = state { true } else { false } }
    var isWaitingForPermit: Bool { if case .waiting(.permit, _) = state { true } else { false } }

    /// The time to call `timer`; `nil` while the call waits for a permit, because that wait has
    /// its own time limit.
    var timerDeadline: Instant? {
        switch state {
        case .waiting(.pacer(let until), _), .waiting(.pause(let until), _): until
        case .calling(let attempt): min(attempt.timerDeadline, deadline)
        case .waiting(.permit, _), .over: nil
        }
    }

    /// The stage of a failure that happens now.
    var stage: ProxyFailure.Stage {
        guard let attempt = calling, attempt.response == nil else { return .responding }
        return attempt.isConnected ? .sent : .connecting
    }

    private var calling: Attempt? { if case .calling(let attempt) = state { attempt } else { nil } }

    /// Returns the current try if it has this number.
    private func calling(_ number: Int) -> Attempt? { number == attempts ? calling : nil }

    private mutating func conclude(_ action: Action) -> Action {
        state = .over
        return action
    }
}

/// The source of an upstream's retries.
protocol RetrySource {
    /// Returns a random pause before a retry, in nanoseconds.
    func drawPause() -> Int64
    /// Takes a retry from the budget.
    /// - Returns: `false` if the budget is exhausted.
    func takeRetry() -> Bool
}

// MARK: - Permits

extension ProxiedCallStateMachine {
    /// Limits how long a call waits to begin.
    mutating func waitForPacer(atMost milliseconds: Int64) -> Action {
        guard case .waiting(.pacer, _) = state else { return .none }
        state = .waiting(.pacer(until: started.advanced(byMilliseconds: milliseconds)), nil)
        return .setTimer
    }

    /// Requests a permit for the first try or for a retry.
    /// - Parameter maximumWait: the maximum wait for a permit, in milliseconds.
    mutating func permitRequested(_ policy: Policy, maximumWait: Int64, now: Instant) -> Action {
        guard case .waiting(_, let last) = state, !isWaitingForPermit else { return .none }
        let isFirst = attempts == 0
        if isFirst { deadline = policy.total.map { started.advanced(byMilliseconds: $0) } ?? .distantFuture }
        guard deadline > now else { return tooLate(now: now) }
        state = .waiting(.permit(since: isFirst ? started : now), last)
        let remaining = (deadline.nanoseconds - now.nanoseconds) / 1_000_000
        return .acquirePermit(waitMilliseconds: isFirst ? max(0, min(maximumWait, remaining)) : 0)
    }

    /// Ends a call that is invalid, or whose service is unknown.
    mutating func reject() { if case .waiting = state { state = .over } }

    mutating func permitGranted(_ permit: PermitID, _ policy: Policy, now: Instant) -> Step {
        guard case .waiting(.permit(let since), _) = state else { return .refuse }
        waited += now.nanoseconds - since.nanoseconds
        attempts += 1
        state = .calling(Attempt(permit, policy, now: now))
        return .proceed
    }

    mutating func permitRefused(now: Instant) -> Action {
        guard case .waiting(.permit(let since), let last) = state else { return .none }
        waited += now.nanoseconds - since.nanoseconds
        switch last {
        case .failed(let failure), .held(_, .broken(let failure)): return conclude(.respond(failure))
        case .held(let attempt, .whole): return relay(attempt, isComplete: true)
        case .held(let attempt, .awaited): return relay(attempt, isComplete: false)
        case nil: return conclude(.refuse)
        }
    }

    /// Ends a call whose time runs out before its first try or a retry. Relays the held response if that is complete.
    private mutating func tooLate(now: Instant) -> Action {
        guard case .waiting(_, let last?) = state else {
            waited = now.nanoseconds - started.nanoseconds
            return conclude(.respondOverloaded)
        }
        switch last {
        case .failed(let failure): return conclude(.respond(failure))
        case .held(let attempt, .whole): return relay(attempt, isComplete: true)
        case .held: return conclude(.respond(.totalTimeout))
        }
    }

    private mutating func relay(_ attempt: Attempt, isComplete: Bool) -> Action {
        var attempt = attempt
        attempt.reading = .flowing
        state = .calling(attempt)
        return .relayHeld(isComplete: isComplete)
    }
}

// MARK: - The request

extension ProxiedCallStateMachine {
    /// - Parameter number: the number of the connection's try, as in all events of a connection.
    mutating func connected(_ number: Int, now: Instant) -> Step {
        guard var attempt = calling(number), !attempt.isConnected else { return .refuse }
        attempt.progress = .sent
        attempt.lastByteAt = now
        if !isBodyAwaited { attempt.requestSentAt = now }
        state = .calling(attempt)
        return .proceed
    }

    mutating func requestPart(now: Instant) -> RequestAction {
        guard !isOver else { return .drop }
        guard var attempt = calling, attempt.isConnected else { return .wait }
        attempt.lastByteAt = now
        state = .calling(attempt)
        return attempt.response == nil ? .sendAndBuffer : .send
    }

    mutating func requestEnd(now: Instant) -> Step {
        isBodyAwaited = false
        guard var attempt = calling, attempt.isConnected, attempt.requestSentAt == nil else { return .refuse }
        attempt.requestSentAt = now
        attempt.lastByteAt = now
        state = .calling(attempt)
        return .proceed
    }

    /// Call at the end of a burst of body parts: they must be flushed to the upstream.
    func requestPaused() -> Step { isBodyAwaited && calling?.isConnected ?? false ? .proceed : .refuse }

    /// Call when the upstream's writability changes: the body is read only while the upstream is writable.
    func upstreamWritabilityChanged(_ number: Int) -> Step {
        isBodyAwaited && calling(number) != nil ? .proceed : .refuse
    }
}

// MARK: - The response

extension ProxiedCallStateMachine {
    /// Call when an informational response arrives. It is dropped if its status is 100, which the sidecar sends itself,
    /// or if the client is not reading.
    mutating func informational(_ number: Int, isContinue: Bool, isClientWritable: Bool) -> Step {
        guard let attempt = calling(number), attempt.response == nil, !isContinue, isClientWritable,
            informational < Self.maximumInformational
        else { return .refuse }
        informational += 1
        return .proceed
    }

    /// - Returns: the action, and the outcome if the response is held for a retry.
    mutating func responseHead(
        _ response: Response, of number: Int, now: Instant, retries: (some RetrySource)?
    ) -> (ResponseAction, Report?) {
        guard var attempt = calling(number), attempt.response == nil else { return (.drop, nil) }
        attempt.beginResponse(response, now: now)
        guard Self.retriedStatuses.contains(response.status), response.retryAfter == nil,
            let until = planRetry(attempt.policy, now: now, retries)
        else {
            state = .calling(attempt)
            return (.relay, nil)
        }
        let report = attempt.reportSuccess()
        state = .waiting(.pause(until: until), .held(attempt, .awaited))
        return (.hold, report)
    }

    mutating func responsePart(_ bytes: Int, of number: Int, now: Instant) -> ResponseAction {
        guard number == attempts else { return .drop }
        switch state {
        case .calling(var attempt) where attempt.response != nil:
            attempt.received(bytes, now: now)
            state = .calling(attempt)
            return .relay
        case .waiting(let wait, .held(var attempt, .awaited)):
            attempt.received(bytes, now: now)
            state = .waiting(wait, .held(attempt, .awaited))
            return .hold
        case .waiting, .calling, .over: return .drop
        }
    }

    /// Call at the end of a burst of response parts: they must be flushed to the client.
    func responsePaused(_ number: Int) -> Step { calling(number)?.response != nil ? .proceed : .refuse }

    /// - Parameter grpcStatus: the gRPC status in the trailers, as an HTTP status.
    /// - Returns: the action, and the outcome if it was not reported before.
    mutating func responseEnd(of number: Int, grpcStatus: @autoclosure () -> Int?) -> (ResponseAction, Report?) {
        guard number == attempts else { return (.drop, nil) }
        switch state {
        case .calling(var attempt) where attempt.response != nil:
            state = .over
            if attempt.response?.isGRPC ?? false { attempt.response?.noteTrailers(grpcStatus()) }
            return (.relay, attempt.reportSuccess())
        case .waiting(let wait, .held(let attempt, .awaited)):
            state = .waiting(wait, .held(attempt, .whole))
            return (.hold, nil)
        case .waiting, .calling, .over: return (.drop, nil)
        }
    }

    /// Call when the upstream switches to the protocol that the request offered.
    /// - Returns: the outcome; `nil` if the connection is no longer needed.
    mutating func switchedProtocols(_ number: Int, status: Int, now: Instant) -> Report? {
        guard var attempt = calling(number), attempt.response == nil else { return nil }
        attempt.beginResponse(Response(status: status), now: now)
        state = .over
        return attempt.reportSuccess()
    }
}

// MARK: - The client

extension ProxiedCallStateMachine {
    /// Call when the client does not accept more of the response: reading from the upstream must pause.
    mutating func clientBlocked() -> Step {
        guard var attempt = calling, attempt.response != nil else { return .refuse }
        attempt.reading = .held
        state = .calling(attempt)
        return .proceed
    }

    /// Call when the client accepts more of the response: reading from the upstream must resume.
    mutating func clientWritable(now: Instant) -> Step {
        guard var attempt = calling, attempt.response != nil else { return .refuse }
        attempt.reading = .flowing
        attempt.lastByteAt = now
        state = .calling(attempt)
        return .proceed
    }

    mutating func clientLeft(now: Instant) -> Action {
        switch state {
        case .waiting: return conclude(.giveUp(nil, then: .respond))
        case .calling(var attempt):
            let report = attempt.report(.clientLeft, now: now)
            return conclude(.giveUp(report, then: attempt.response == nil ? .respond : .abort))
        case .over: return .none
        }
    }
}

// MARK: - Failures

extension ProxiedCallStateMachine {
    /// Call when the connection failed. Resends the request at most once per call, under the same permit, provided that
    /// no part of a response has arrived. Either the upstream is known not to have processed the request, whatever its
    /// method, or the request is idempotent and its connection was closing.
    /// - Parameter isBodyBuffered: whether every part of the body that was sent can be resent.
    mutating func upstreamFailed(
        _ failure: ProxyFailure, _ number: Int, isBodyBuffered: Bool, now: Instant, retries: (some RetrySource)?
    ) -> Action {
        guard number == attempts else { return .none }
        switch state {
        case .calling(var attempt):
            guard isBodyBuffered, attempt.response == nil, resend == .possible,
                failure.mayBeResent(isIdempotent: request.isIdempotent)
            else { return fail(attempt, failure, now: now, retries) }
            resend = .used
            attempt.reconnect(now: now)
            state = .calling(attempt)
            return .resend
        case .waiting(let wait, .held(let attempt, .awaited)):
            state = .waiting(wait, .held(attempt, .broken(failure)))
            return .none
        case .waiting, .over: return .none
        }
    }

    /// Call when the timer that was set for `timerDeadline` fires.
    /// - Parameter isBackedUp: whether the upstream has yet to accept bytes that were sent to it.
    mutating func timerFired(now: Instant, isBackedUp: Bool, retries: (some RetrySource)?) -> Action {
        switch state {
        case .waiting(.pacer(let until), _): return until <= now ? tooLate(now: now) : .setTimer
        case .waiting(.pause(let until), _): return until <= now ? .requestPermit : .setTimer
        case .waiting(.permit, _), .over: return .none
        case .calling(let attempt):
            guard min(attempt.timerDeadline, deadline) <= now else { return .setTimer }
            // A gRPC client may keep its request open while it waits for the service, so the delay is the service's.
            let isClientAwaited =
                attempt.reading == .held || !request.isGRPC && attempt.isConnected && isBodyAwaited && !isBackedUp
            let failure =
                deadline <= now
                ? overdue(attempt, isClientAwaited: isClientAwaited, now: now)
                : attempt.timeout(isClientAwaited: isClientAwaited, isBackedUp: isBackedUp)
            return fail(attempt, failure, now: now, retries)
        }
    }

    /// Returns the failure of a call that exceeds its total timeout.
    private func overdue(_ attempt: Attempt, isClientAwaited: Bool, now: Instant) -> ProxyFailure {
        if isClientAwaited { return .clientIsSlow }
        if attempt.response != nil { return attempt.isStalled(now) ? .totalTimeout : .truncated }
        // The service is not blamed if most of the total timeout passed before this try.
        let total = deadline.nanoseconds - started.nanoseconds
        let hadEnoughTime = waited < total / 2 || deadline.nanoseconds - attempt.began.nanoseconds >= total / 4
        return hadEnoughTime ? .totalTimeout : .startedLate
    }

    private mutating func fail(
        _ attempt: Attempt, _ failure: ProxyFailure, now: Instant, _ retries: (some RetrySource)?
    ) -> Action {
        var attempt = attempt
        let report = attempt.report(failure, now: now)
        guard attempt.response == nil else { return conclude(.fail(failure, report, then: .abort)) }
        guard failure.mayBeRetried, let until = planRetry(attempt.policy, now: now, retries) else {
            return conclude(.fail(failure, report, then: .respond))
        }
        state = .waiting(.pause(until: until), .failed(failure))
        return .fail(failure, report, then: .pause)
    }

    /// Plans a retry, which needs another permit. Calls with a body, and methods that are not idempotent, such as POST,
    /// are never retried. The pause is random, so that calls that failed together are not retried together.
    /// - Returns: the end of the pause; `nil` if the call is not retried.
    private func planRetry(_ policy: Policy, now: Instant, _ retries: (some RetrySource)?) -> Instant? {
        guard let retries, attempts <= policy.retries, !request.hasBody, request.isIdempotent else { return nil }
        let until = now.advanced(by: retries.drawPause(), ofNanoseconds: 1)
        return until < deadline && retries.takeRetry() ? until : nil
    }
}

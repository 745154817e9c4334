internal import InterlockCore

/// The state of one call through the proxy: its permits, its attempts, its response and their timeouts. Pure: takes
/// events and the time, and returns actions for `GuardedCall` to execute.
///
/// | state | the call | next states |
/// | --- | --- | --- |
/// | `waiting(.pacer)` | waits until the pacer lets it begin | `waiting(.permit)`; `over` if time runs out |
/// | `waiting(.permit)` | waits for a permit | `calling`, for an attempt or a held response; `over` if refused |
/// | `calling` | connects, sends the request, relays the response | `waiting(.pause)`; `over` |
/// | `waiting(.pause)` | waits before a retry | `waiting(.permit)`; if time runs out, `calling` or `over` |
///
/// If the client disconnects, the call ends in every state.
///
/// Each permit belongs to one attempt. An attempt reports exactly one outcome: when its response ends, when the
/// protocol switches, when it fails, when the client disconnects, or when its response is held for a retry. The result
/// of the latest attempt is kept while the call waits, and becomes the result of the call if no other attempt follows.
/// Events of earlier attempts are dropped.
struct ProxiedCallStateMachine {
    struct Request {
        var hasBody = false
        var isIdempotent = true
        var isGRPC = false
    }

    /// The timeouts of a call to an upstream, and its maximum number of retries.
    struct Policy {
        let connectMilliseconds, firstByteMilliseconds, idleMilliseconds: Int64
        let totalMilliseconds: Int64?
        let maximumRetries: Int

        init(_ settings: UpstreamSettings) {
            connectMilliseconds = settings.connectTimeout.wholeMilliseconds
            firstByteMilliseconds = settings.firstByteTimeout.wholeMilliseconds
            idleMilliseconds = settings.idleTimeout.wholeMilliseconds
            totalMilliseconds = settings.totalTimeout?.wholeMilliseconds
            maximumRetries = settings.retries.attempts
        }
    }

    /// The outcome to report for a permit.
    struct Report {
        let permit: PermitID
        let outcome: OutcomeReport
    }

    // MARK: Actions

    enum Action {
        case none
        /// Set the timer to `timerDeadline`.
        case setTimer
        /// Find the upstream, then call `permitRequested`; call `reject` if the service has no upstream.
        case requestPermit
        case acquirePermit(waitMilliseconds: Int64)
        /// Send the request again for the same attempt, on another connection.
        case resend
        /// Release the connection, and report the failure of the attempt.
        case fail(ProxyFailure, Report?, then: Consequence)
        /// Release everything, because the client has disconnected.
        case giveUp(Report?, then: Consequence)
        /// Respond with the fallback, or with the failure if there is no fallback.
        case respond(ProxyFailure)
        /// Respond with the fallback, or with an error if there is no fallback, because the call could not begin in
        /// time.
        case respondOverloaded
        /// Respond with the fallback, or with the refusal of the permit.
        case refuse
        /// Relay the held response, and its end if that has arrived.
        case relayHeld(isComplete: Bool)
    }

    /// The next step after a failed or abandoned attempt.
    enum Consequence {
        /// Set the timer for the next attempt.
        case pause
        case respond
        /// End the client's connection, because its response has begun.
        case abort
    }

    /// Whether `GuardedCall` may take the next step.
    enum Step { case proceed, refuse }

    /// The action for a part of the request's body.
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
        /// Carries the result of the latest attempt, if there was one.
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

    /// Whether the call may still use its only resend.
    private enum Resend { case possible, used }

    /// The end of a held response, if it has arrived.
    private enum HeldEnd {
        case awaited
        case complete
        case broken(ProxyFailure)
    }

    private static let retriedStatuses: Set<Int> = [502, 503, 504]
    /// The maximum number of interim responses (status 1xx) that are relayed for one call.
    private static let maximumInterimCount = 8

    private let request: Request
    let startedAt: Instant
    private var deadline = Instant.distantFuture
    private var state = State.waiting(.pacer(until: .distantFuture), nil)
    /// Whether more of the request's body is to come.
    private(set) var isBodyAwaited: Bool
    private var interimCount = 0
    /// The only resend of the call, shared by all its attempts.
    private var resend = Resend.possible
    /// The number of attempts so far, which is also the number of the latest one.
    private(set) var attemptCount = 0
    /// The sum of the waits for permits, including the wait to begin.
    private(set) var waitedNanoseconds: Int64 = 0

    init(_ request: Request, startedAt: Instant) {
        self.request = request
        self.startedAt = startedAt
        isBodyAwaited = request.hasBody
    }

    var isOver: Bool { if case .over = state { true } else { false } }
    var isWaitingForPermit: Bool { if case .waiting(.permit, _) = state { true } else { false } }

    /// The time at which `timerFired` is due; `nil` while the call waits for a permit, because that wait has its own
    /// time limit.
    var timerDeadline: Instant? {
        switch state {
        case .waiting(.pacer(let until), _), .waiting(.pause(let until), _): until
        case .calling(let attempt): min(attempt.timerDeadline, deadline)
        case .waiting(.permit, _), .over: nil
        }
    }

    /// The stage of a failure that happens now.
    var stage: ProxyFailure.Stage {
        guard let attempt = currentAttempt, attempt.response == nil else { return .responding }
        return attempt.isConnected ? .sent : .connecting
    }

    private var currentAttempt: Attempt? { if case .calling(let attempt) = state { attempt } else { nil } }

    /// Returns the current attempt if it has this number.
    private func currentAttempt(_ number: Int) -> Attempt? { number == attemptCount ? currentAttempt : nil }

    /// Ends the call and returns its last action.
    private mutating func conclude(_ action: Action) -> Action {
        state = .over
        return action
    }
}

/// The budget and the pauses of an upstream's retries.
protocol RetrySource {
    /// Returns the length of a random pause before a retry.
    func drawPauseNanoseconds() -> Int64
    /// Takes a retry from the budget.
    /// - Returns: `false` if the budget is exhausted.
    func takeRetry() -> Bool
}

// MARK: - Permits

extension ProxiedCallStateMachine {
    /// Limits how long a call waits to begin.
    mutating func waitForPacer(atMostMilliseconds milliseconds: Int64) -> Action {
        guard case .waiting(.pacer, _) = state else { return .none }
        state = .waiting(.pacer(until: startedAt.advanced(byMilliseconds: milliseconds)), nil)
        return .setTimer
    }

    /// Begins the wait for the permit of the first attempt or of a retry. Only the first attempt may wait.
    /// - Parameter maximumWaitMilliseconds: the maximum wait for a permit.
    mutating func permitRequested(_ policy: Policy, maximumWaitMilliseconds: Int64, now: Instant) -> Action {
        guard case .waiting(_, let last) = state, !isWaitingForPermit else { return .none }
        let isFirst = attemptCount == 0
        if isFirst {
            deadline = policy.totalMilliseconds.map { startedAt.advanced(byMilliseconds: $0) } ?? .distantFuture
        }
        guard deadline > now else { return endLateCall(now: now) }
        state = .waiting(.permit(since: isFirst ? startedAt : now), last)
        let remainingMilliseconds = (deadline.nanoseconds - now.nanoseconds) / 1_000_000
        let waitMilliseconds = isFirst ? max(0, min(maximumWaitMilliseconds, remainingMilliseconds)) : 0
        return .acquirePermit(waitMilliseconds: waitMilliseconds)
    }

    /// Ends a call that is invalid, or whose service is unknown.
    mutating func reject() { if case .waiting = state { state = .over } }

    /// Begins an attempt with the permit.
    /// - Returns: `.refuse` if the permit is no longer needed.
    mutating func permitGranted(_ permit: PermitID, _ policy: Policy, now: Instant) -> Step {
        guard case .waiting(.permit(let since), _) = state else { return .refuse }
        waitedNanoseconds += now.nanoseconds - since.nanoseconds
        attemptCount += 1
        state = .calling(Attempt(permit, policy, now: now))
        return .proceed
    }

    /// Ends the call with the result of its latest attempt, or with the refusal if there was no attempt.
    mutating func permitRefused(now: Instant) -> Action {
        guard case .waiting(.permit(let since), let last) = state else { return .none }
        waitedNanoseconds += now.nanoseconds - since.nanoseconds
        switch last {
        case .failed(let failure), .held(_, .broken(let failure)): return conclude(.respond(failure))
        case .held(let attempt, .complete): return relay(attempt, isComplete: true)
        case .held(let attempt, .awaited): return relay(attempt, isComplete: false)
        case nil: return conclude(.refuse)
        }
    }

    /// Ends a call whose time runs out before its first attempt or a retry. Relays the held response if it is complete.
    private mutating func endLateCall(now: Instant) -> Action {
        guard case .waiting(_, let last?) = state else {
            waitedNanoseconds = now.nanoseconds - startedAt.nanoseconds
            return conclude(.respondOverloaded)
        }
        switch last {
        case .failed(let failure): return conclude(.respond(failure))
        case .held(let attempt, .complete): return relay(attempt, isComplete: true)
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
    /// Records that the attempt has a connection, so that its request can be sent.
    /// - Parameter number: the number of the attempt, as in all events of a connection.
    mutating func connectionEstablished(_ number: Int, now: Instant) -> Step {
        guard var attempt = currentAttempt(number), !attempt.isConnected else { return .refuse }
        attempt.progress = .sent
        attempt.lastByteAt = now
        if !isBodyAwaited { attempt.requestSentAt = now }
        state = .calling(attempt)
        return .proceed
    }

    /// Records that a part of the request's body has arrived.
    mutating func requestPartReceived(now: Instant) -> RequestAction {
        guard !isOver else { return .drop }
        guard var attempt = currentAttempt, attempt.isConnected else { return .wait }
        attempt.lastByteAt = now
        state = .calling(attempt)
        return attempt.response == nil ? .sendAndBuffer : .send
    }

    /// Records that the request is complete.
    mutating func requestEndReceived(now: Instant) -> Step {
        isBodyAwaited = false
        guard var attempt = currentAttempt, attempt.isConnected, attempt.requestSentAt == nil else { return .refuse }
        attempt.requestSentAt = now
        attempt.lastByteAt = now
        state = .calling(attempt)
        return .proceed
    }

    /// Returns whether to flush the body parts that have arrived to the upstream.
    func requestPaused() -> Step { isBodyAwaited && currentAttempt?.isConnected ?? false ? .proceed : .refuse }

    /// Returns whether to start or stop reading the request's body, which is read only while the upstream is writable.
    func upstreamWritabilityChanged(_ number: Int) -> Step {
        isBodyAwaited && currentAttempt(number) != nil ? .proceed : .refuse
    }
}

// MARK: - The response

extension ProxiedCallStateMachine {
    /// Returns whether to relay an interim response (status 1xx). Drops it if its status is 100, which the sidecar
    /// sends itself, if the client is not reading, or if the call has already relayed the maximum number.
    mutating func interimResponseReceived(_ number: Int, isContinue: Bool, isClientWritable: Bool) -> Step {
        guard let attempt = currentAttempt(number), attempt.response == nil, !isContinue, isClientWritable,
            interimCount < Self.maximumInterimCount
        else { return .refuse }
        interimCount += 1
        return .proceed
    }

    /// Begins the response, or holds it and schedules a retry.
    /// - Returns: the action, and the outcome if the response is held.
    mutating func responseHeadReceived(
        _ response: Response, of number: Int, now: Instant, retries: (some RetrySource)?
    ) -> (ResponseAction, Report?) {
        guard var attempt = currentAttempt(number), attempt.response == nil else { return (.drop, nil) }
        attempt.beginResponse(response, now: now)
        guard Self.retriedStatuses.contains(response.status), response.retryAfterMilliseconds == nil,
            let until = scheduleRetry(attempt.policy, now: now, retries)
        else {
            state = .calling(attempt)
            return (.relay, nil)
        }
        let report = attempt.reportSuccess()
        state = .waiting(.pause(until: until), .held(attempt, .awaited))
        return (.hold, report)
    }

    /// Records that a part of the response's body has arrived.
    mutating func responsePartReceived(_ byteCount: Int, of number: Int, now: Instant) -> ResponseAction {
        guard number == attemptCount else { return .drop }
        switch state {
        case .calling(var attempt) where attempt.response != nil:
            attempt.partReceived(byteCount, now: now)
            state = .calling(attempt)
            return .relay
        case .waiting(let wait, .held(var attempt, .awaited)):
            attempt.partReceived(byteCount, now: now)
            state = .waiting(wait, .held(attempt, .awaited))
            return .hold
        case .waiting, .calling, .over: return .drop
        }
    }

    /// Returns whether to flush the response parts that have arrived to the client.
    func responsePaused(_ number: Int) -> Step { currentAttempt(number)?.response != nil ? .proceed : .refuse }

    /// Records that the response is complete.
    /// - Parameter grpcStatus: the gRPC status in the trailers, as an HTTP status.
    /// - Returns: the action, and the outcome if it was not reported before.
    mutating func responseEndReceived(
        of number: Int, grpcStatus: @autoclosure () -> Int?
    ) -> (ResponseAction, Report?) {
        guard number == attemptCount else { return (.drop, nil) }
        switch state {
        case .calling(var attempt) where attempt.response != nil:
            state = .over
            if attempt.response?.isGRPC ?? false { attempt.response?.applyTrailers(grpcStatus()) }
            return (.relay, attempt.reportSuccess())
        case .waiting(let wait, .held(let attempt, .awaited)):
            state = .waiting(wait, .held(attempt, .complete))
            return (.hold, nil)
        case .waiting, .calling, .over: return (.drop, nil)
        }
    }

    /// Ends the call, because the upstream has switched to the protocol that the request offered.
    /// - Returns: the outcome; `nil` if the connection is no longer needed.
    mutating func protocolSwitched(_ number: Int, status: Int, now: Instant) -> Report? {
        guard var attempt = currentAttempt(number), attempt.response == nil else { return nil }
        attempt.beginResponse(Response(status: status), now: now)
        state = .over
        return attempt.reportSuccess()
    }
}

// MARK: - The client

extension ProxiedCallStateMachine {
    /// Records that the client does not accept more of the response, so that reading from the upstream must pause.
    mutating func clientBlocked() -> Step {
        guard var attempt = currentAttempt, attempt.response != nil else { return .refuse }
        attempt.reading = .held
        state = .calling(attempt)
        return .proceed
    }

    /// Records that the client accepts more of the response, so that reading from the upstream must resume.
    mutating func clientWritable(now: Instant) -> Step {
        guard var attempt = currentAttempt, attempt.response != nil else { return .refuse }
        attempt.reading = .flowing
        attempt.lastByteAt = now
        state = .calling(attempt)
        return .proceed
    }

    /// Ends the call, because the client has disconnected.
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
    /// Handles the failure of the attempt's connection.
    ///
    /// Resends the request at most once per call, under the same permit, and only before a response has begun. Either
    /// the upstream is known not to have processed the request, or the request is idempotent and its connection was
    /// closing.
    /// - Parameter isBodyBuffered: whether every part of the body that was sent can be resent.
    mutating func upstreamFailed(
        _ failure: ProxyFailure, _ number: Int, isBodyBuffered: Bool, now: Instant, retries: (some RetrySource)?
    ) -> Action {
        guard number == attemptCount else { return .none }
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

    /// Handles the timer that was set to `timerDeadline`.
    /// - Parameter isBackedUp: whether the upstream has yet to accept bytes that were sent to it.
    mutating func timerFired(now: Instant, isBackedUp: Bool, retries: (some RetrySource)?) -> Action {
        switch state {
        case .waiting(.pacer(let until), _): return until <= now ? endLateCall(now: now) : .setTimer
        case .waiting(.pause(let until), _): return until <= now ? .requestPermit : .setTimer
        case .waiting(.permit, _), .over: return .none
        case .calling(let attempt):
            guard min(attempt.timerDeadline, deadline) <= now else { return .setTimer }
            // A gRPC client may keep its request open while it waits for a response, so the delay is the service's.
            let isClientAwaited =
                attempt.reading == .held || !request.isGRPC && attempt.isConnected && isBodyAwaited && !isBackedUp
            let failure =
                deadline <= now
                ? deadlineFailure(attempt, isClientAwaited: isClientAwaited, now: now)
                : attempt.timeout(isClientAwaited: isClientAwaited, isBackedUp: isBackedUp)
            return fail(attempt, failure, now: now, retries)
        }
    }

    /// Returns the failure of a call that reaches its deadline during an attempt.
    private func deadlineFailure(_ attempt: Attempt, isClientAwaited: Bool, now: Instant) -> ProxyFailure {
        if isClientAwaited { return .clientIsSlow }
        if attempt.response != nil { return attempt.isStalled(now) ? .totalTimeout : .truncated }
        // The service is not blamed if most of the time had passed before this attempt.
        let allowedNanoseconds = deadline.nanoseconds - startedAt.nanoseconds
        let attemptNanoseconds = deadline.nanoseconds - attempt.startedAt.nanoseconds
        let hadEnoughTime = waitedNanoseconds < allowedNanoseconds / 2 || attemptNanoseconds >= allowedNanoseconds / 4
        return hadEnoughTime ? .totalTimeout : .startedLate
    }

    private mutating func fail(
        _ attempt: Attempt, _ failure: ProxyFailure, now: Instant, _ retries: (some RetrySource)?
    ) -> Action {
        var attempt = attempt
        let report = attempt.report(failure, now: now)
        guard attempt.response == nil else { return conclude(.fail(failure, report, then: .abort)) }
        guard failure.mayBeRetried, let until = scheduleRetry(attempt.policy, now: now, retries) else {
            return conclude(.fail(failure, report, then: .respond))
        }
        state = .waiting(.pause(until: until), .failed(failure))
        return .fail(failure, report, then: .pause)
    }

    /// Schedules a retry, which needs another permit. Calls with a body, and methods that are not idempotent, such as
    /// POST, are never retried. The pause is random, so that calls that failed together are not retried together.
    /// - Returns: the end of the pause; `nil` if the call is not retried.
    private func scheduleRetry(_ policy: Policy, now: Instant, _ retries: (some RetrySource)?) -> Instant? {
        guard let retries, attemptCount <= policy.maximumRetries, !request.hasBody, request.isIdempotent else {
            return nil
        }
        let until = now.advanced(by: retries.drawPauseNanoseconds(), ofNanoseconds: 1)
        return until < deadline && retries.takeRetry() ? until : nil
    }
}

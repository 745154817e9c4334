internal import InterlockClient
internal import InterlockCore
internal import InterlockJudge
internal import Logging
internal import NIOCore

/// A client of a run: one RESP connection to a sidecar, and one job at a time. Confined to the event loop of the run.
///
/// The client reconnects automatically. If the connection is lost during an operation, the outcome of the operation is
/// unknown, and the client does not send it again.
final class LoadClient {
    let number: Int
    /// The number of the client's sidecar.
    let sidecar: Int
    unowned let engine: LoadEngine
    private let configuration: SidecarClientConfiguration
    private var connection: SidecarConnection?
    private var timer: Scheduled<Void>?

    /// Whether the client has a job.
    private(set) var isBusy = false
    /// Whether a command of the client awaits its answer.
    private(set) var isAwaitingAnswer = false
    /// Whether an HTTP request of the client is active. The RESP connection does not affect it.
    var isProxying = false
    /// Whether the client has abandoned its job as if its process had died. The job ends with the active command.
    private(set) var hasVanished = false
    /// Whether the client is in the engine's list of idle clients.
    var isListedAsIdle = false
    var held: HeldLock?

    init(number: Int, endpoint: SidecarEndpoint, engine: LoadEngine) {
        self.number = number
        sidecar = endpoint.number
        self.engine = engine
        configuration = endpoint.resp
    }

    // MARK: Connection

    func connect() {
        guard engine.plan.usesRESP else { return }
        let connection = SidecarConnection(configuration, eventLoop: engine.eventLoop, logger: engine.logger)
        connection.onUp = { [unowned self] in engine.clientConnected(self) }
        connection.onDown = { [unowned self] in engine.clientDisconnected(self, $0) }
        self.connection = connection
        connection.start()
    }

    /// The last error of the connection; `nil` if there was none. Meaningless while connected.
    var lastFailure: InterlockError? { connection?.lastFailure }

    /// Whether the client can begin a job.
    var isReady: Bool { !isBusy && (!engine.plan.usesRESP || connection?.isUp ?? false) }

    /// Closes the connection permanently. The outcome of an active operation is then unknown.
    func close() -> EventLoopFuture<Void> {
        timer?.cancel()
        return connection?.close() ?? engine.eventLoop.makeSucceededVoidFuture()
    }

    /// Replaces the connection with a new one.
    private func reconnect() {
        _ = connection?.close()
        connect()
    }

    /// Closes the connection in the middle of a job, as if the process had died, and reconnects as a new client.
    /// - Returns: `false` if the client had no job to abandon.
    @discardableResult
    func vanish() -> Bool {
        guard isBusy, !hasVanished, !isProxying, connection != nil else { return false }
        hasVanished = true
        held = nil
        let wasAwaitingAnswer = isAwaitingAnswer
        reconnect()
        if !wasAwaitingAnswer { finishJob() }
        return true
    }

    // MARK: Jobs

    func begin(_ job: LoadJob, due: Instant) {
        isBusy = true
        switch job {
        case .lockCycle(let lock, let mode):
            acquire(lock, mode: mode, due: due)
        case .take(let service, let cost, let subject, let waitMilliseconds):
            take(service, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds, due: due)
        case .call(let service, let waitMilliseconds):
            acquirePermit(service, waitMilliseconds: waitMilliseconds, due: due)
        case .proxied(let service):
            callProxy(service, due: due)
        }
    }

    /// Ends the current job and reports that to the engine.
    func finishJob() {
        timer?.cancel()
        timer = nil
        held = nil
        hasVanished = false
        isBusy = false
        engine.jobEnded(by: self)
    }

    /// Schedules `body` and cancels the previously scheduled work.
    func schedule(at instant: Instant, _ body: @escaping () -> Void) {
        timer?.cancel()
        let pause = TimeAmount.nanoseconds(max(0, instant.nanoseconds - engine.recorder.now().nanoseconds))
        timer = engine.eventLoop.assumeIsolated().scheduleTask(in: pause, body)
    }

    // MARK: Calls

    /// An operation that was sent.
    struct Invocation {
        var operation: Operation
        /// The time from which the latency counts.
        var due: Instant
        /// The time at which the operation was sent.
        var at: Instant
    }

    /// Sends one call. Calls `onReply` with the reply, which must end the operation.
    func send<Call: SidecarCall>(
        _ operation: Operation, _ call: Call, due: Instant, onReply: @escaping (Call.Reply, Invocation) -> Void
    ) {
        guard let connection else { return finishJob() }
        isAwaitingAnswer = true
        let invocation = Invocation(operation: operation, due: due, at: engine.operationInvoked(operation, by: self))
        let timeout = TimeAmount.milliseconds(operation.waitMilliseconds) + engine.patience
        connection.send(call, timeout: timeout) { [self] result in
            isAwaitingAnswer = false
            // The timer would have made the client vanish during its wait.
            timer?.cancel()
            switch result {
            case .success(let reply): onReply(reply, invocation)
            case .failure(let error): callFailed(invocation, error)
            }
        }
    }

    /// Records that an operation succeeded.
    /// - Returns: the time of its end.
    @discardableResult
    func recordSuccess(_ success: OperationSuccess, of invocation: Invocation) -> Instant {
        engine.operationEnded(invocation.operation, .done(success), due: invocation.due, by: self)
    }

    /// Records that the sidecar refused an operation.
    /// - Returns: the time of its end.
    @discardableResult
    func recordRefusal(_ refusal: Refusal, of invocation: Invocation) -> Instant {
        engine.operationEnded(invocation.operation, .refused(refusal), due: invocation.due, by: self)
    }

    /// Handles a call that failed or got no answer.
    private func callFailed(_ invocation: Invocation, _ error: InterlockError) {
        let now = engine.operationEnded(invocation.operation, OperationEnding(error), due: invocation.due, by: self)
        // A late answer would be mistaken for the answer to the next call.
        if error.code == .responseTimedOut, !hasVanished { reconnect() }
        hasVanished ? finishJob() : continueAfterFailure(of: invocation.operation, now: now)
    }

    private func continueAfterFailure(of operation: Operation, now: Instant) {
        if case .renew = operation { renewalFailed(now: now) } else { finishJob() }
    }
}

extension LoadClient {
    private func take(_ service: Int, cost: Int64, subject: Int?, waitMilliseconds: Int64, due: Instant) {
        let request = UpstreamCallRequest(
            service: engine.name(ofService: service), cost: cost, subject: subject.map { engine.name(ofSubject: $0) },
            wait: .milliseconds(waitMilliseconds))
        let operation = Operation.take(
            service: service, cost: cost, subject: subject, waitMilliseconds: waitMilliseconds)
        send(operation, LimitCalls.Take(request), due: due) { [self] decision, invocation in
            if decision.isAllowed {
                let resetAfterMilliseconds = decision.resetAfter.wholeMilliseconds
                let now = recordSuccess(
                    .taken(
                        limit: Int64(decision.limit), remaining: Int64(decision.remaining),
                        resetAfterMilliseconds: resetAfterMilliseconds),
                    of: invocation)
                engine.measures.windows.recordTake(
                    service: service, cost: cost, resetAfterMilliseconds: resetAfterMilliseconds, at: now)
            } else {
                recordRefusal(
                    .limited(retryAfterMilliseconds: decision.retryAfter?.wholeMilliseconds ?? -1), of: invocation)
            }
            finishJob()
        }
    }

    private func acquirePermit(_ service: Int, waitMilliseconds: Int64, due: Instant) {
        let request = UpstreamCallRequest(
            service: engine.name(ofService: service), wait: .milliseconds(waitMilliseconds))
        let operation = Operation.permit(service: service, waitMilliseconds: waitMilliseconds)
        send(operation, PermitCalls.Acquire(request), due: due) { [self] reply, invocation in
            switch reply {
            case .success(let permit):
                let permitNumber = engine.nextPermit()
                let now = recordSuccess(.permitted(permitNumber, state: permit.state), of: invocation)
                hasVanished ? finishJob() : simulateCall(service, permit: permitNumber, id: permit.id, now: now)
            case .failure(let refusal):
                let retryAfterMilliseconds = refusal.retryAfter?.wholeMilliseconds ?? -1
                recordRefusal(
                    Refusal(reason: refusal.code.rawValue, retryAfterMilliseconds: retryAfterMilliseconds),
                    of: invocation)
                finishJob()
            }
        }
    }

    /// Waits for the duration of the permitted call, then reports its outcome.
    private func simulateCall(_ service: Int, permit: PermitNumber, id: String, now: Instant) {
        let lengthNanoseconds = engine.random.duration(in: engine.plan.hold).nanosecondsRounded
        let end = Instant(nanoseconds: now.nanoseconds + lengthNanoseconds)
        guard end > now else { return report(service, permit: permit, id: id, due: end) }
        schedule(at: end) { [self] in report(service, permit: permit, id: id, due: end) }
    }

    private func report(_ service: Int, permit: PermitNumber, id: String, due: Instant) {
        guard !engine.random.happens(engine.plan.clientBehavior.unreportedProbability) else { return finishJob() }
        let isOK = !engine.callFails(service)
        let call = PermitCalls.Report(
            service: engine.name(ofService: service), permit: id, OutcomeReport(outcome: isOK ? .ok : .error))
        send(.report(service: service, permit: permit, isOK: isOK), call, due: due) { [self] state, invocation in
            recordSuccess(.reported(state: state), of: invocation)
            finishJob()
        }
    }

    /// Sends a request through the guarded proxy.
    func callProxy(_ service: Int, due: Instant) {
        guard let proxy = engine.proxy else { return finishJob() }
        let operation = Operation.proxied(service: service)
        isProxying = true
        engine.operationInvoked(operation, by: self)
        proxy.get(service, sidecar: sidecar, timeout: engine.patience) { [self] ending in
            isProxying = false
            engine.operationEnded(operation, ending, due: due, by: self)
            finishJob()
        }
    }
}

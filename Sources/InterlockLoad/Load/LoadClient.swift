internal import InterlockClient
internal import InterlockCore
internal import InterlockJudge
internal import Logging
internal import NIOCore

/// A client of a run: one RESP connection to a sidecar, and one job at a time. Confined to the event loop of the run.
///
/// The client reconnects automatically. Operations on a lost connection end as unknown and are never sent again.
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
    /// Whether the client has abandoned its job as if its process had died. Only the end of its active command is still
    /// awaited.
    private(set) var hasVanished = false
    /// Whether the client is in the engine's list of idle clients.
    var isListed = false
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

    /// The reason for the missing connection; meaningless while connected.
    var lastFailure: InterlockError? { connection?.lastFailure }

    /// Whether the client can take a job.
    var isReady: Bool { !isBusy && (!engine.plan.usesRESP || connection?.isUp ?? false) }

    /// Closes the connection permanently. An active operation ends as unknown.
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
        let isAnswerDue = isAwaitingAnswer
        reconnect()
        if !isAnswerDue { finishJob() }
        return true
    }

    // MARK: Jobs

    func begin(_ job: LoadJob, due: Instant) {
        isBusy = true
        switch job {
        case .lockCycle(let lock, let mode):
            acquire(lock, mode: mode, due: due)
        case .take(let service, let cost, let subject, let wait):
            take(service, cost: cost, subject: subject, wait: wait, due: due)
        case .call(let service, let wait):
            acquirePermit(service, wait: wait, due: due)
        case .proxied(let service):
            callProxy(service, due: due)
        }
    }

    func finishJob() {
        timer?.cancel()
        timer = nil
        held = nil
        hasVanished = false
        isBusy = false
        engine.ended(by: self)
    }

    /// Schedules `body` and cancels the previously scheduled work.
    func plan(at instant: Instant, _ body: @escaping () -> Void) {
        timer?.cancel()
        let pause = TimeAmount.nanoseconds(max(0, instant.nanoseconds - engine.recorder.now().nanoseconds))
        timer = engine.eventLoop.assumeIsolated().scheduleTask(in: pause, body)
    }

    // MARK: Calls

    /// An operation that was sent.
    struct Invocation {
        var operation: Operation
        /// The start of the latency.
        var due: Instant
        var at: Instant
    }

    /// Sends one call. `answered` receives the reply and ends the operation.
    func send<Call: SidecarCall>(
        _ operation: Operation, _ call: Call, due: Instant, answered: @escaping (Call.Reply, Invocation) -> Void
    ) {
        guard let connection else { return finishJob() }
        isAwaitingAnswer = true
        let invocation = Invocation(operation: operation, due: due, at: engine.invoked(operation, by: self))
        let timeout = TimeAmount.milliseconds(operation.wait) + engine.patience
        connection.send(call, timeout: timeout) { [self] result in
            isAwaitingAnswer = false
            // The timer was to make the client vanish while it waits.
            timer?.cancel()
            switch result {
            case .success(let reply): answered(reply, invocation)
            case .failure(let error): failed(invocation, error)
            }
        }
    }

    /// Records success.
    /// - Returns: the time of the ending.
    @discardableResult
    func done(_ success: OperationSuccess, _ invocation: Invocation) -> Instant {
        engine.ended(invocation.operation, .done(success), due: invocation.due, by: self)
    }

    /// Records a refusal.
    /// - Returns: the time of the ending.
    @discardableResult
    func refused(_ refusal: Refusal, _ invocation: Invocation) -> Instant {
        engine.ended(invocation.operation, .refused(refusal), due: invocation.due, by: self)
    }

    private func failed(_ invocation: Invocation, _ error: InterlockError) {
        let now = engine.ended(invocation.operation, OperationEnding(error), due: invocation.due, by: self)
        // A late answer would be mistaken for the answer to the next call.
        if error.code == .responseTimedOut, !hasVanished { reconnect() }
        hasVanished ? finishJob() : failed(invocation.operation, now: now)
    }

    private func failed(_ operation: Operation, now: Instant) {
        if case .renew = operation { renewalFailed(now: now) } else { finishJob() }
    }
}

extension LoadClient {
    private func take(_ service: Int, cost: Int64, subject: Int?, wait: Int64, due: Instant) {
        let request = UpstreamCallRequest(
            service: engine.name(ofService: service), cost: cost, subject: subject.map { engine.name(ofSubject: $0) },
            wait: .milliseconds(wait))
        let operation = Operation.take(service: service, cost: cost, subject: subject, wait: wait)
        send(operation, LimitCalls.Take(request), due: due) { [self] answer, invocation in
            if answer.isAllowed {
                let resetAfter = answer.resetAfter.wholeMilliseconds
                let now = done(
                    .taken(limit: Int64(answer.limit), remaining: Int64(answer.remaining), resetAfter: resetAfter), invocation)
                engine.measures.windows.taken(service: service, cost: cost, resetAfter: resetAfter, at: now)
            } else {
                refused(.limited(retryAfter: answer.retryAfter?.wholeMilliseconds ?? -1), invocation)
            }
            finishJob()
        }
    }

    private func acquirePermit(_ service: Int, wait: Int64, due: Instant) {
        let request = UpstreamCallRequest(service: engine.name(ofService: service), wait: .milliseconds(wait))
        send(.permit(service: service, wait: wait), PermitCalls.Acquire(request), due: due) { [self] answer, invocation in
            switch answer {
            case .success(let permit):
                let number = engine.nextPermit()
                let now = done(.permitted(number, state: permit.state), invocation)
                hasVanished ? finishJob() : self.call(service, permit: number, id: permit.id, now: now)
            case .failure(let refusal):
                let retryAfter = refusal.retryAfter?.wholeMilliseconds ?? -1
                refused(Refusal(reason: refusal.code.rawValue, retryAfter: retryAfter), invocation)
                finishJob()
            }
        }
    }

    /// Simulates the permitted call, which takes a while, and then reports its outcome.
    private func call(_ service: Int, permit: PermitNumber, id: String, now: Instant) {
        let length = engine.random.duration(in: engine.plan.hold).nanosecondsRounded
        let end = Instant(nanoseconds: now.nanoseconds + length)
        guard end > now else { return report(service, permit: permit, id: id, due: end) }
        plan(at: end) { [self] in report(service, permit: permit, id: id, due: end) }
    }

    private func report(_ service: Int, permit: PermitNumber, id: String, due: Instant) {
        guard !engine.random.happens(engine.plan.clientBehavior.unreportedProbability) else { return finishJob() }
        let isOK = !engine.callFails(service)
        let call = PermitCalls.Report(
            service: engine.name(ofService: service), permit: id, OutcomeReport(outcome: isOK ? .ok : .error))
        send(.report(service: service, permit: permit, isOK: isOK), call, due: due) { [self] state, invocation in
            done(.reported(state: state), invocation)
            finishJob()
        }
    }

    func callProxy(_ service: Int, due: Instant) {
        guard let resp = engine.proxy else { return finishJob() }
        let operation = Operation.proxied(service: service)
        isProxying = true
        engine.invoked(operation, by: self)
        resp.get(service, sidecar: sidecar, timeout: engine.patience) { [self] ending in
            isProxying = false
            engine.ended(operation, ending, due: due, by: self)
            finishJob()
        }
    }
}

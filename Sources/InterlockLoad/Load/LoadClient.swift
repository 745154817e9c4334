internal import InterlockClient
internal import InterlockCore
internal import InterlockJudge
internal import Logging
internal import NIOCore

/// One client of a run: a connection to one sidecar's RESP door, and one thing to do at a time. Confined to the run's event
/// loop.
///
/// It connects again by itself. What was asked over a connection that is lost has an unknown end, and is never sent again.
final class LoadClient {
    let number: Int
    /// The number of its sidecar.
    let sidecar: Int
    unowned let engine: LoadEngine
    private let configuration: SidecarClientConfiguration
    private var connection: SidecarConnection?
    private var timer: Scheduled<Void>?

    /// It has a job.
    private(set) var isBusy = false
    /// A command of its own awaits its answer.
    private(set) var isAsking = false
    /// It has a request under way at the HTTP door, which takes no notice of the connection here.
    var isProxying = false
    /// It has given up what it was doing, as if its process had died; the end of the command under way is all that is left.
    private(set) var isGone = false
    /// It stands in the line of those who are free.
    var isListed = false
    var held: HeldLock?

    init(number: Int, endpoint: SidecarEndpoint, engine: LoadEngine) {
        self.number = number
        sidecar = endpoint.number
        self.engine = engine
        configuration = endpoint.door
    }

    // MARK: Its connection

    func connect() {
        guard engine.plan.usesDoor else { return }
        let connection = SidecarConnection(configuration, eventLoop: engine.eventLoop, logger: engine.logger)
        connection.onUp = { [unowned self] in engine.isUp(self) }
        connection.onDown = { [unowned self] in engine.isDown(self, $0) }
        self.connection = connection
        connection.start()
    }

    /// Why there is no connection, while there is none.
    var lastFailure: InterlockError? { connection?.lastFailure }

    /// It can be given a job.
    var isReady: Bool { !isBusy && (!engine.plan.usesDoor || connection?.isUp ?? false) }

    /// Ends the connection for good. What is under way ends as unknown.
    func close() -> EventLoopFuture<Void> {
        timer?.cancel()
        return connection?.close() ?? engine.eventLoop.makeSucceededVoidFuture()
    }

    /// Begins anew, over another connection.
    private func reconnect() {
        _ = connection?.close()
        connect()
    }

    /// Closes the connection in the middle of whatever it does, as when its process dies, and comes back as another.
    /// - Returns: whether it did anything.
    @discardableResult
    func vanish() -> Bool {
        guard isBusy, !isGone, !isProxying, connection != nil else { return false }
        isGone = true
        held = nil
        let isAnswerDue = isAsking
        reconnect()
        if !isAnswerDue { becomeFree() }
        return true
    }

    // MARK: Its jobs

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

    func becomeFree() {
        timer?.cancel()
        timer = nil
        held = nil
        isGone = false
        isBusy = false
        engine.ended(by: self)
    }

    /// Does it then; whatever else was planned is not done any more.
    func plan(at instant: Instant, _ body: @escaping () -> Void) {
        timer?.cancel()
        let pause = TimeAmount.nanoseconds(max(0, instant.nanoseconds - engine.recorder.now().nanoseconds))
        timer = engine.eventLoop.assumeIsolated().scheduleTask(in: pause, body)
    }

    // MARK: Asking

    /// An operation that was sent.
    struct Invocation {
        var operation: Operation
        /// From when its latency counts.
        var due: Instant
        var at: Instant
    }

    /// Sends one call; `answered` takes its reply and ends the operation.
    func ask<Call: SidecarCall>(
        _ operation: Operation, _ call: Call, due: Instant, answered: @escaping (Call.Reply, Invocation) -> Void
    ) {
        guard let connection else { return becomeFree() }
        isAsking = true
        let invocation = Invocation(operation: operation, due: due, at: engine.invoked(operation, by: self))
        let timeout = TimeAmount.milliseconds(operation.wait) + engine.patience
        connection.send(call, timeout: timeout) { [self] result in
            isAsking = false
            // It would have vanished while it waited.
            timer?.cancel()
            switch result {
            case .success(let reply): answered(reply, invocation)
            case .failure(let error): failed(invocation, error)
            }
        }
    }

    /// The operation succeeded.
    /// - Returns: when that was.
    @discardableResult
    func done(_ success: Success, _ invocation: Invocation) -> Instant {
        engine.ended(invocation.operation, .done(success), due: invocation.due, by: self)
    }

    /// The sidecar said no.
    /// - Returns: when that was.
    @discardableResult
    func refused(_ refusal: Refusal, _ invocation: Invocation) -> Instant {
        engine.ended(invocation.operation, .refused(refusal), due: invocation.due, by: self)
    }

    private func failed(_ invocation: Invocation, _ error: InterlockError) {
        let now = engine.ended(invocation.operation, OperationEnding(error), due: invocation.due, by: self)
        // The answer may come yet, and would stand before those of all that follows.
        if error.code == .answerTimedOut, !isGone { reconnect() }
        isGone ? becomeFree() : failed(invocation.operation, now: now)
    }

    private func failed(_ operation: Operation, now: Instant) {
        if case .renew = operation { renewalFailed(now: now) } else { becomeFree() }
    }
}

extension LoadClient {
    private func take(_ service: Int, cost: Int64, subject: Int?, wait: Int64, due: Instant) {
        let request = UpstreamCallRequest(
            service: engine.name(ofService: service), cost: cost, subject: subject.map { engine.name(ofSubject: $0) },
            wait: .milliseconds(wait))
        let operation = Operation.take(service: service, cost: cost, subject: subject, wait: wait)
        ask(operation, LimitCalls.Take(request), due: due) { [self] answer, invocation in
            if answer.isTaken {
                let resetAfter = answer.resetAfter.wholeMilliseconds
                let now = done(
                    .taken(limit: Int64(answer.capacity), remaining: Int64(answer.remaining), resetAfter: resetAfter), invocation)
                engine.measures.windows.taken(service: service, cost: cost, resetAfter: resetAfter, at: now)
            } else {
                refused(.limited(retryAfter: answer.retryAfter?.wholeMilliseconds ?? -1), invocation)
            }
            becomeFree()
        }
    }

    private func acquirePermit(_ service: Int, wait: Int64, due: Instant) {
        let request = UpstreamCallRequest(service: engine.name(ofService: service), wait: .milliseconds(wait))
        ask(.permit(service: service, wait: wait), PermitCalls.Acquire(request), due: due) { [self] answer, invocation in
            switch answer {
            case .success(let permit):
                let number = engine.nextPermit()
                let now = done(.permitted(number, state: permit.state), invocation)
                isGone ? becomeFree() : self.call(service, permit: number, id: permit.id, now: now)
            case .failure(let refusal):
                let retryAfter = refusal.retryAfter?.wholeMilliseconds ?? -1
                refused(Refusal(reason: refusal.code.rawValue, retryAfter: retryAfter), invocation)
                becomeFree()
            }
        }
    }

    /// Makes the call that was permitted: it takes its time, and then its outcome is reported.
    private func call(_ service: Int, permit: PermitNumber, id: String, now: Instant) {
        let length = engine.random.duration(in: engine.plan.hold).nanosecondsRounded
        let end = Instant(nanoseconds: now.nanoseconds + length)
        guard end > now else { return report(service, permit: permit, id: id, due: end) }
        plan(at: end) { [self] in report(service, permit: permit, id: id, due: end) }
    }

    private func report(_ service: Int, permit: PermitNumber, id: String, due: Instant) {
        guard !engine.random.happens(engine.plan.conduct.leavesUnreported) else { return becomeFree() }
        let isOK = !engine.callFails(service)
        let call = PermitCalls.Report(
            service: engine.name(ofService: service), permit: id, OutcomeReport(outcome: isOK ? .ok : .error))
        ask(.report(service: service, permit: permit, isOK: isOK), call, due: due) { [self] state, invocation in
            done(.reported(state: state), invocation)
            becomeFree()
        }
    }

    func callProxy(_ service: Int, due: Instant) {
        guard let door = engine.proxy else { return becomeFree() }
        let operation = Operation.proxied(service: service)
        isProxying = true
        engine.invoked(operation, by: self)
        door.get(service, sidecar: sidecar, timeout: engine.patience) { [self] ending in
            isProxying = false
            engine.ended(operation, ending, due: due, by: self)
            becomeFree()
        }
    }
}

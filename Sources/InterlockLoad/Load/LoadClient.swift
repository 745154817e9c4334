internal import Hiredis
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
    private let configuration: RedisConfiguration
    private var pipeline: RedisPipeline?
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
        let pipeline = RedisPipeline(configuration: configuration, eventLoop: engine.eventLoop, logger: engine.logger)
        pipeline.onUp = { [unowned self] in engine.isUp(self) }
        pipeline.onDown = { [unowned self] in engine.isDown(self, $0) }
        self.pipeline = pipeline
        pipeline.start()
    }

    /// Why there is no connection, while there is none.
    var lastFailure: RedisError? { pipeline?.lastFailure }

    /// It can be given a job.
    var isReady: Bool { !isBusy && (!engine.plan.usesDoor || pipeline?.isUp ?? false) }

    /// Ends the connection for good. What is under way ends as unknown.
    func close() -> EventLoopFuture<Void> {
        timer?.cancel()
        return pipeline?.close() ?? engine.eventLoop.makeSucceededVoidFuture()
    }

    /// Begins anew, over another connection.
    private func reconnect() {
        _ = pipeline?.close()
        connect()
    }

    /// Closes the connection in the middle of whatever it does, as when its process dies, and comes back as another.
    /// - Returns: whether it did anything.
    @discardableResult
    func vanish() -> Bool {
        guard isBusy, !isGone, !isProxying, pipeline != nil else { return false }
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
            let name = subject.map { engine.name(ofSubject: $0) }
            ask(
                .take(service: service, cost: cost, subject: subject, wait: wait),
                .take(service: engine.name(ofService: service), cost: cost, subject: name, wait: wait), due: due)
        case .call(let service, let wait):
            ask(
                .permit(service: service, wait: wait), .permit(service: engine.name(ofService: service), wait: wait), due: due)
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

    /// Sends one command. `due`: from when its latency counts.
    func ask(_ operation: Operation, _ command: DoorCommand, due: Instant) {
        guard let pipeline else { return becomeFree() }
        isAsking = true
        let invokedAt = engine.invoked(operation, by: self)
        let timeout = TimeAmount.milliseconds(operation.wait) + engine.patience
        pipeline.send(command, timeout: timeout) { [self] result in
            isAsking = false
            answered(result, to: operation, due: due, invokedAt: invokedAt)
        }
    }

    private func answered(
        _ result: Result<DoorAnswer, RedisError>, to operation: Operation, due: Instant, invokedAt: Instant
    ) {
        // That it would vanish while it waits.
        timer?.cancel()
        switch result {
        case .failure(let error):
            let ending = OperationEnding(error)
            let now = engine.ended(operation, ending, due: due, by: self)
            // The answer may come yet, and would stand before those of all that follows.
            if error.code == .timedOut, !isGone { reconnect() }
            isGone ? becomeFree() : failed(operation, now: now)
        case .success(let answer):
            succeeded(answer, operation, due: due, invokedAt: invokedAt)
        }
    }

    private func succeeded(_ answer: DoorAnswer, _ operation: Operation, due: Instant, invokedAt: Instant) {
        func end(_ success: Success) -> Instant { engine.ended(operation, .done(success), due: due, by: self) }
        switch (operation, answer) {
        case (.acquire(let lock, let mode, _, _, _), .lease(let token, let fence, let validFor)):
            let lease = engine.nextLease()
            let now = end(.granted(lease: lease, fence: fence, validFor: validFor))
            guard !isGone else { return becomeFree() }
            granted(
                lock, mode: mode, lease: lease, token: token, fence: fence, validFor: validFor, invokedAt: invokedAt, now: now)
        case (.renew, .renewed(let validFor)):
            let now = end(.renewed(validFor: validFor))
            isGone ? becomeFree() : renewed(validFor: validFor, invokedAt: invokedAt, now: now)
        case (.release, .released):
            _ = end(.released)
            becomeFree()
        case (.take(let service, let cost, _, _), .taken(let limit, let remaining, let resetAfter)):
            let now = end(.taken(limit: limit, remaining: remaining, resetAfter: resetAfter))
            engine.measures.windows.taken(service: service, cost: cost, resetAfter: resetAfter, at: now)
            becomeFree()
        case (.permit(let service, _, _), .permit(let id, let state)):
            let number = engine.nextPermit()
            let now = end(.permitted(number, state: state))
            isGone ? becomeFree() : call(service, permit: number, id: id, now: now)
        case (.report, .reported(let state)):
            _ = end(.reported(state: state))
            becomeFree()
        case (_, .refused(let refusal)):
            let now = engine.ended(operation, .refused(refusal), due: due, by: self)
            if case .renew = operation { lost(now: now) }
            becomeFree()
        default:
            preconditionFailure("each command decodes its own answers")
        }
    }

    private func failed(_ operation: Operation, now: Instant) {
        if case .renew = operation { renewalFailed(now: now) } else { becomeFree() }
    }
}

extension LoadClient {
    /// Makes the call that was permitted: it takes its time, and then its outcome is reported.
    func call(_ service: Int, permit: PermitNumber, id: String, now: Instant) {
        let length = engine.random.duration(in: engine.plan.hold).nanosecondsRounded
        let end = Instant(nanoseconds: now.nanoseconds + length)
        guard end > now else { return report(service, permit: permit, id: id, due: end) }
        plan(at: end) { [self] in report(service, permit: permit, id: id, due: end) }
    }

    private func report(_ service: Int, permit: PermitNumber, id: String, due: Instant) {
        guard !engine.random.happens(engine.plan.conduct.leavesUnreported) else { return becomeFree() }
        let isOK = !engine.callFails(service)
        ask(
            .report(service: service, permit: permit, isOK: isOK),
            .report(service: engine.name(ofService: service), permit: id, isOK: isOK), due: due)
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

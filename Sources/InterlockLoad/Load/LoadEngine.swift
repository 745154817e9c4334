internal import InterlockJudge
internal import DequeModule
internal import InterlockClient
internal import InterlockCore
internal import Logging
internal import NIOCore

/// The engine of a run: hands due jobs to clients and records their outcomes. Confined to its event loop, like its
/// clients and measures.
final class LoadEngine {
    enum Phase {
        case connecting
        case running
        /// No new operations begin, and active ones are completed.
        case draining
        case over
    }

    let plan: LoadPlan
    let eventLoop: any EventLoop
    let recorder: HistoryRecorder
    let logger = Logger(label: "interlock.load") { _ in SwiftLogNoOpLogHandler() }
    let patience: TimeAmount
    let ttlMilliseconds: Int64
    let waitMilliseconds: Int64
    private(set) var proxy: ProxyCaller?

    /// The source of the clients' random decisions.
    var random: SeededRandom
    var resource = GuardedResource()
    private(set) var measures: RunMeasures
    private(set) var phase = Phase.connecting
    private(set) var clients: [LoadClient] = []
    let watches: [SidecarWatch]
    private var processes = ProcessMeter()
    private var redisCommands = RedisCommandMeter()

    private var choice: JobSampler
    private var schedule: ArrivalSchedule?
    private var start: Instant
    private var end: Instant
    private var nextDue = Instant.distantFuture
    private var idle = Deque<LoadClient>()
    private var backlog = Deque<DueJob>()
    private var busy = 0
    private var leases: LeaseID = 0
    private var permits: PermitNumber = 0
    private var arrival: Scheduled<Void>?
    private var whenIdle: (() -> Void)?
    /// Called while `connecting`, when a client has connected or an attempt failed.
    var onConnection: ((LoadClient, InterlockError?) -> Void)?

    /// The minimum pause between two ticks. At high rates, operations that fall due within it begin together.
    private static let minimumTick = TimeAmount.microseconds(50)

    /// - Throws: `LoadError` if the plan cannot be executed.
    init(plan: LoadPlan, eventLoop: any EventLoop, recorder: HistoryRecorder) throws(LoadError) {
        try plan.validate()
        self.plan = plan
        self.eventLoop = eventLoop
        self.recorder = recorder
        patience = TimeAmount(plan.patience)
        ttlMilliseconds = plan.ttl.wholeMilliseconds
        waitMilliseconds = plan.wait.wholeMilliseconds
        var random = SeededRandom(seed: plan.seed)
        choice = JobSampler(plan: plan, random: random.split())
        if case .openLoop(let rate) = plan.pacing { schedule = ArrivalSchedule(rate: rate, random: random.split()) }
        self.random = random.split()
        start = recorder.now()
        end = start
        measures = RunMeasures(start: start, services: plan.services)
        let logger = self.logger
        watches = plan.sidecars.map {
            SidecarWatch($0, plan: plan, recorder: recorder, eventLoop: eventLoop, logger: logger)
        }
        clients = (0..<plan.clients).map {
            LoadClient(number: $0, endpoint: plan.sidecars[$0 % plan.sidecars.count], engine: self)
        }
    }

    // MARK: Life cycle

    /// - Throws: `LoadError` if TLS cannot be set up.
    func openProxy() throws(LoadError) {
        guard plan.usesProxy else { return }
        proxy = try ProxyCaller(plan: plan, eventLoop: eventLoop)
    }

    func begin() {
        phase = .running
        start = recorder.now()
        end = Instant(nanoseconds: start.nanoseconds + plan.duration.nanosecondsRounded)
        measures = RunMeasures(start: start, services: plan.services)
        if let first = schedule?.next() { nextDue = instant(first) }
        for client in clients { offerJob(to: client) }
        arrive()
    }

    /// Stops starting operations. Calls `completion` once no operation is active.
    func drain(completion: @escaping () -> Void) {
        guard phase == .running else { return completion() }
        phase = .draining
        arrival?.cancel()
        for waiting in backlog { measures.unsent(waiting.job.kind) }
        backlog = []
        guard busy > 0 else { return completion() }
        whenIdle = completion
    }

    /// The maximum time for which operations may continue after the last one has begun.
    var maximumDrainTime: Duration {
        plan.wait + plan.hold.upperBound + plan.ttl + plan.ttl + plan.patience + plan.patience
    }

    /// Closes all connections. Active operations end as unknown.
    func close() -> EventLoopFuture<Void> {
        phase = .over
        var closing = clients.map { $0.close() }
        closing += watches.flatMap { $0.close() }
        if let proxy { closing.append(proxy.close()) }
        return EventLoopFuture.andAllComplete(closing, on: eventLoop)
    }

    func forgetClients() {
        idle = []
        clients = []
    }

    // MARK: Measuring

    /// Measures this process under `name` from now on.
    func follow(_ name: String, process: Int32) {
        processes.follow(name, process: process)
        processes.sample(at: recorder.now())
    }

    /// Samples the processes and asks every sidecar for its count of Redis commands. Calls `completion` once all have
    /// answered, or after a second.
    func count(completion: @escaping () -> Void) {
        var left = watches.count
        for watch in watches {
            watch.count(timeout: .seconds(1)) { [self] counts in
                if let counts { record(counts, by: watch.sidecar) }
                left -= 1
                guard left == 0 else { return }
                processes.sample(at: recorder.now())
                completion()
            }
        }
    }

    private func record(_ counts: SidecarWatch.Counts, by sidecar: Int) {
        redisCommands.recordCount(counts.redisCommands, sidecar: sidecar, process: counts.process)
        // The process ID of a sidecar on another machine or in another container may denote a different local process,
        // or none.
        guard ProcessMeter.programName(of: counts.process) == "interlock" else { return }
        processes.follow("sidecar \(sidecar)", process: counts.process)
    }

    var progress: LoadProgress {
        measures.progress(at: recorder.now(), waiting: backlog.count, recorder: recorder)
    }

    func outcome(startedAt: Int64, end: Instant) -> LoadOutcome {
        measures.outcome(startedAt: startedAt, end: end, redisCommands: redisCommands.commands, processes: processes.reports)
    }

    // MARK: Jobs

    private func instant(_ offset: Int64) -> Instant {
        let (sum, isOverflow) = start.nanoseconds.addingReportingOverflow(offset)
        return isOverflow ? .distantFuture : Instant(nanoseconds: sum)
    }

    /// Begins all due operations and schedules the next tick.
    private func arrive() {
        guard phase == .running, schedule != nil else { return }
        let now = recorder.now()
        while nextDue <= now, nextDue < end, let next = schedule?.next() {
            let job = choice.next()
            measures.offered(job.kind, at: now)
            dispatch(DueJob(job: job, due: nextDue))
            nextDue = instant(next)
        }
        guard nextDue < end else { return }
        let pause = TimeAmount.nanoseconds(nextDue.nanoseconds - recorder.now().nanoseconds)
        arrival = eventLoop.assumeIsolated().scheduleTask(in: max(pause, Self.minimumTick)) { [unowned self] in arrive() }
    }

    private func dispatch(_ job: DueJob) {
        while let client = idle.popFirst() {
            client.isListed = false
            guard client.isReady else { continue }
            return begin(job, by: client)
        }
        guard backlog.count < LoadPlan.maximumBacklog else { return measures.unsent(job.job.kind) }
        backlog.append(job)
    }

    private func begin(_ job: DueJob, by client: LoadClient) {
        busy += 1
        client.begin(job.job, due: job.due)
    }

    /// Call when a client's job has ended.
    func ended(by client: LoadClient) {
        busy -= 1
        if busy == 0, let whenIdle {
            self.whenIdle = nil
            return whenIdle()
        }
        offerJob(to: client)
    }

    /// Gives a client a job, or lists it as idle, if it is ready.
    private func offerJob(to client: LoadClient) {
        guard phase == .running, client.isReady else { return }
        if let waiting = backlog.popFirst() { return begin(waiting, by: client) }
        guard schedule == nil else {
            // The longest idle client is first, so all sidecars are used in rotation.
            if !client.isListed {
                client.isListed = true
                idle.append(client)
            }
            return
        }
        let now = recorder.now()
        guard now < end else { return }
        let job = choice.next()
        measures.offered(job.kind, at: now)
        begin(DueJob(job: job, due: now), by: client)
    }

    // MARK: Reports from clients

    func clientConnected(_ client: LoadClient) {
        onConnection?(client, nil)
        offerJob(to: client)
    }

    func clientDisconnected(_ client: LoadClient, _ error: InterlockError) {
        onConnection?(client, error)
    }

    /// - Returns: the time of the event.
    @discardableResult
    func invoked(_ operation: Operation, by client: LoadClient) -> Instant {
        let now = recorder.record(.invoked(client: client.number, sidecar: client.sidecar, operation))
        switch operation.kind {
        // Follow-up operations are not scheduled, so they count as offered when they are sent.
        case .renew, .release, .report: measures.offered(operation.kind, at: now)
        case .acquire, .take, .permit, .proxied: break
        }
        return now
    }

    /// - Returns: the time of the event.
    @discardableResult
    func ended(_ operation: Operation, _ ending: OperationEnding, due: Instant, by client: LoadClient) -> Instant {
        let now = recorder.record(.ended(client: client.number, ending))
        measures.ended(operation.kind, ending, due: due, at: now)
        return now
    }

    func nextLease() -> LeaseID {
        leases += 1
        return leases
    }

    func nextPermit() -> PermitNumber {
        permits += 1
        return permits
    }

    // MARK: Queries from clients

    func name(ofLock lock: Int) -> String { "\(plan.namePrefix)\(lock)" }

    func name(ofSubject subject: Int) -> String { "\(plan.namePrefix)\(subject)" }

    func name(ofService service: Int) -> String { plan.services.rules[service].name }

    /// Returns whether a call to the service fails now.
    func callFails(_ service: Int) -> Bool {
        guard let phases = plan.failurePhases[service] else { return false }
        return phases.isBad(atNanoseconds: recorder.now().nanoseconds - start.nanoseconds) && random.happens(phases.failures)
    }
}

internal import InterlockJudge
internal import DequeModule
internal import InterlockClient
internal import InterlockCore
internal import Logging
internal import NIOCore

/// The engine of a run, which hands due jobs to clients and records their outcomes. Confined to its event loop, like
/// its clients and measures.
final class LoadEngine {
    enum Phase {
        case connecting
        case running
        /// No new job begins, and active jobs continue until they end.
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
    private var processMeter = ProcessMeter()
    private var redisCommandMeter = RedisCommandMeter()

    private var jobSampler: JobSampler
    private var arrivalSchedule: ArrivalSchedule?
    private var start: Instant
    private var end: Instant
    private var nextDue = Instant.distantFuture
    private var idleClients = Deque<LoadClient>()
    private var backlog = Deque<DueJob>()
    private var busyClientCount = 0
    private var lastLease: LeaseID = 0
    private var lastPermit: PermitNumber = 0
    private var arrivalTimer: Scheduled<Void>?
    private var onDrained: (() -> Void)?
    /// Called during the phase `connecting`, when a client has connected or an attempt has failed.
    var onConnection: ((LoadClient, InterlockError?) -> Void)?

    /// The minimum pause between two ticks. At high rates, operations that are due during a pause begin together.
    private static let minimumTick = TimeAmount.microseconds(50)

    /// Creates the engine and its clients, without connecting them.
    /// - Throws: `LoadError` if the plan cannot run.
    init(plan: LoadPlan, eventLoop: any EventLoop, recorder: HistoryRecorder) throws(LoadError) {
        try plan.validate()
        self.plan = plan
        self.eventLoop = eventLoop
        self.recorder = recorder
        patience = TimeAmount(plan.patience)
        ttlMilliseconds = plan.ttl.wholeMilliseconds
        waitMilliseconds = plan.wait.wholeMilliseconds
        var random = SeededRandom(seed: plan.seed)
        jobSampler = JobSampler(plan: plan, random: random.split())
        if case .openLoop(let rate) = plan.pacing {
            arrivalSchedule = ArrivalSchedule(rate: rate, random: random.split())
        }
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

    /// Prepares requests through the proxy if the plan needs them.
    /// - Throws: `LoadError` if TLS cannot be set up.
    func openProxy() throws(LoadError) {
        guard plan.usesProxy else { return }
        proxy = try ProxyCaller(plan: plan, eventLoop: eventLoop)
    }

    /// Begins the run: jobs become due from now on.
    func begin() {
        phase = .running
        start = recorder.now()
        end = Instant(nanoseconds: start.nanoseconds + plan.duration.nanosecondsRounded)
        measures = RunMeasures(start: start, services: plan.services)
        if let offset = arrivalSchedule?.next() { nextDue = instant(atNanoseconds: offset) }
        for client in clients { offerJob(to: client) }
        beginDueJobs()
    }

    /// Begins no further job. Calls `completion` once no job is active.
    func drain(completion: @escaping () -> Void) {
        guard phase == .running else { return completion() }
        phase = .draining
        arrivalTimer?.cancel()
        for dueJob in backlog { measures.operationDropped(dueJob.job.kind) }
        backlog = []
        guard busyClientCount > 0 else { return completion() }
        onDrained = completion
    }

    /// The maximum time for which jobs may continue after the last one has begun.
    var maximumDrainTime: Duration {
        plan.wait + plan.hold.upperBound + plan.ttl + plan.ttl + plan.patience + plan.patience
    }

    /// Closes all connections. The outcomes of active operations are then unknown.
    func close() -> EventLoopFuture<Void> {
        phase = .over
        var closing = clients.map { $0.close() }
        closing += watches.flatMap { $0.close() }
        if let proxy { closing.append(proxy.close()) }
        return EventLoopFuture.andAllComplete(closing, on: eventLoop)
    }

    /// Releases the clients, which refer to this engine.
    func forgetClients() {
        idleClients = []
        clients = []
    }

    // MARK: Measuring

    /// Measures this process under `name` from now on.
    func follow(_ name: String, processID: Int32) {
        processMeter.follow(name, processID: processID)
        processMeter.sample(at: recorder.now())
    }

    /// Samples the processes, and asks every sidecar for its count of Redis commands. Calls `completion` once all
    /// sidecars have answered, or after a second.
    func sampleProcesses(completion: @escaping () -> Void) {
        var remainingWatches = watches.count
        for watch in watches {
            watch.fetchStatus(timeout: .seconds(1)) { [self] status in
                if let status { record(status, of: watch.sidecar) }
                remainingWatches -= 1
                guard remainingWatches == 0 else { return }
                processMeter.sample(at: recorder.now())
                completion()
            }
        }
    }

    private func record(_ status: SidecarWatch.Status, of sidecar: Int) {
        redisCommandMeter.recordCount(status.redisCommandCount, sidecar: sidecar, processID: status.processID)
        // For a sidecar on another machine or in another container, the process ID may denote a different local
        // process.
        guard ProcessMeter.programName(of: status.processID) == "interlock" else { return }
        processMeter.follow("sidecar \(sidecar)", processID: status.processID)
    }

    var progress: LoadProgress {
        measures.progress(at: recorder.now(), waiting: backlog.count, recorder: recorder)
    }

    func outcome(startedAtMilliseconds: Int64, end: Instant) -> LoadOutcome {
        measures.outcome(
            startedAtMilliseconds: startedAtMilliseconds, end: end, redisCommands: redisCommandMeter.commands,
            processes: processMeter.reports)
    }

    // MARK: Jobs

    /// Returns the instant at an offset from the start of the run.
    private func instant(atNanoseconds offset: Int64) -> Instant {
        let (sum, isOverflow) = start.nanoseconds.addingReportingOverflow(offset)
        return isOverflow ? .distantFuture : Instant(nanoseconds: sum)
    }

    /// Begins all due jobs and schedules the next tick.
    private func beginDueJobs() {
        guard phase == .running, arrivalSchedule != nil else { return }
        let now = recorder.now()
        while nextDue <= now, nextDue < end, let nextOffset = arrivalSchedule?.next() {
            let job = jobSampler.next()
            measures.operationDue(job.kind, at: now)
            dispatch(DueJob(job: job, due: nextDue))
            nextDue = instant(atNanoseconds: nextOffset)
        }
        guard nextDue < end else { return }
        let pause = TimeAmount.nanoseconds(nextDue.nanoseconds - recorder.now().nanoseconds)
        arrivalTimer = eventLoop.assumeIsolated().scheduleTask(in: max(pause, Self.minimumTick)) { [unowned self] in
            beginDueJobs()
        }
    }

    /// Hands a job to an idle client, or puts the job into the backlog.
    private func dispatch(_ dueJob: DueJob) {
        while let client = idleClients.popFirst() {
            client.isListedAsIdle = false
            guard client.isReady else { continue }
            return begin(dueJob, by: client)
        }
        guard backlog.count < LoadPlan.maximumBacklog else { return measures.operationDropped(dueJob.job.kind) }
        backlog.append(dueJob)
    }

    private func begin(_ dueJob: DueJob, by client: LoadClient) {
        busyClientCount += 1
        client.begin(dueJob.job, due: dueJob.due)
    }

    /// Handles the end of a client's job.
    func jobEnded(by client: LoadClient) {
        busyClientCount -= 1
        if busyClientCount == 0, let onDrained {
            self.onDrained = nil
            return onDrained()
        }
        offerJob(to: client)
    }

    /// Hands a job to a client that is ready, or adds the client to the idle clients if no job is due.
    private func offerJob(to client: LoadClient) {
        guard phase == .running, client.isReady else { return }
        if let dueJob = backlog.popFirst() { return begin(dueJob, by: client) }
        guard arrivalSchedule == nil else {
            // The client that has been idle longest is the first, so that the load rotates over all sidecars.
            if !client.isListedAsIdle {
                client.isListedAsIdle = true
                idleClients.append(client)
            }
            return
        }
        let now = recorder.now()
        guard now < end else { return }
        let job = jobSampler.next()
        measures.operationDue(job.kind, at: now)
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

    /// Records that a client sends an operation.
    /// - Returns: the time of the event.
    @discardableResult
    func operationInvoked(_ operation: Operation, by client: LoadClient) -> Instant {
        let now = recorder.record(.invoked(client: client.number, sidecar: client.sidecar, operation))
        switch operation.kind {
        // Follow-up operations have no schedule, so they count as offered when they are sent.
        case .renew, .release, .report: measures.operationDue(operation.kind, at: now)
        case .acquire, .take, .permit, .proxied: break
        }
        return now
    }

    /// Records that an operation of a client has ended.
    /// - Returns: the time of the event.
    @discardableResult
    func operationEnded(
        _ operation: Operation, _ ending: OperationEnding, due: Instant, by client: LoadClient
    ) -> Instant {
        let now = recorder.record(.ended(client: client.number, ending))
        measures.operationEnded(operation.kind, ending, due: due, at: now)
        return now
    }

    func nextLease() -> LeaseID {
        lastLease += 1
        return lastLease
    }

    func nextPermit() -> PermitNumber {
        lastPermit += 1
        return lastPermit
    }

    // MARK: Queries from clients

    func name(ofLock lock: Int) -> String { "\(plan.namePrefix)\(lock)" }

    func name(ofSubject subject: Int) -> String { "\(plan.namePrefix)\(subject)" }

    func name(ofService service: Int) -> String { plan.services.rules[service].name }

    /// Draws whether a call to the service fails now.
    func callFails(_ service: Int) -> Bool {
        guard let phases = plan.failurePhases[service] else { return false }
        let nanoseconds = recorder.now().nanoseconds - start.nanoseconds
        return phases.isBad(atNanoseconds: nanoseconds) && random.happens(phases.failureFraction)
    }
}

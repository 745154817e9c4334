internal import InterlockJudge

/// What a run asks of which sidecars, how fast and for how long.
package struct LoadPlan: Sendable {
    package var workload: Workload
    package var sidecars: [SidecarEndpoint]
    package var services: LoadServices
    package var pacing = Pacing.openLoop(rate: 1000)
    /// Connections, spread round robin over the sidecars.
    package var clients = 64
    package var duration = Duration.seconds(30)
    /// Of a mixed run.
    package var shares = WorkloadShares()

    /// How many locks there are, and how many subjects.
    package var names = 1000
    /// What the names of locks and subjects begin with.
    package var namePrefix = "bench-"
    package var skew = NameSkew.uniform
    package var modes = LockModeMix()
    /// For how long a lock is held, or a permitted call lasts: any time in this range is as likely as any other.
    package var hold = Duration.zero...Duration.milliseconds(5)
    package var ttl = Duration.seconds(10)
    /// For how long an acquire waits.
    package var wait = Duration.seconds(5)
    /// For how long a take or a permit waits for its turn, when it does.
    package var turnWait = Duration.milliseconds(200)
    /// What share of takes and permits waits for its turn.
    package var turnWaits = 0.0
    /// What a take costs.
    package var costs: ClosedRange<Int64> = 1...1
    package var conduct = ClientConduct.faultless
    /// When calls of the services fail; an entry for each service that ever does.
    package var badPhases: [Int: BadPhases] = [:]

    package var seed: UInt64 = 1
    /// How long an answer may take beyond the wait that was asked for. Then its connection is given up, and what became of
    /// the operation is unknown.
    package var patience = Duration.seconds(10)
    /// Whether `until` of a breaker's event can be told on this machine's clock: not when Redis' clock is made to jump.
    package var trustsWallClock = true
    /// The channel on which sidecars tell of events, as their `redis.prefix` has it.
    package var eventChannel = "interlock:events"
    /// The process whose processor time and memory are measured beside the sidecars'.
    package var redisProcessID: Int32?

    package init(workload: Workload, sidecars: [SidecarEndpoint], services: LoadServices = LoadServices()) {
        self.workload = workload
        self.sidecars = sidecars
        self.services = services
    }

    /// More connections than one process can make to a sidecar's address.
    package static let mostClients = 60_000
    /// How many operations may be due and not begun: what is due beyond is counted as unsent.
    package static let longestBacklog = 200_000

    /// - Throws: what cannot be done, and what to do about it.
    func validate() throws(LoadError) {
        func require(_ condition: Bool, _ message: String) throws(LoadError) {
            guard condition else { throw LoadError(message) }
        }
        try require(!sidecars.isEmpty, "a run needs a sidecar to drive")
        try require(
            (1...Self.mostClients).contains(clients), "a run has 1 to \(Self.mostClients) clients, not \(clients)")
        try require(
            (1...NameChoice.mostNames).contains(names), "a run has 1 to \(NameChoice.mostNames) names, not \(names)")
        try require(duration > .zero, "a run takes some time: --duration 30s")
        if case .openLoop(let rate) = pacing {
            try require(rate > 0 && rate <= 1e7, "a rate is above 0 and at most 10,000,000 a second, not \(rate)")
        }
        try require(hold.lowerBound >= .zero && wait >= .zero && turnWait >= .zero, "times are not negative")
        try require(ttl >= .milliseconds(5), "a lease lasts 5 ms or more, not \(ttl)")
        try require(costs.lowerBound >= 1, "a take costs 1 or more")
        let indices = services.rules.indices
        try require(
            (services.takes + services.permits + services.proxied).allSatisfy(indices.contains), "a service is not described")
        switch workload {
        case .lock: break
        case .mixed:
            let all = [shares.lock, shares.limit, shares.permit, shares.proxy]
            try require(
                all.allSatisfy { $0 >= 0 && $0.isFinite }, "the shares of a mixed run are not negative")
            let isPossible =
                shares.lock > 0 || shares.limit > 0 && !services.takes.isEmpty
                || shares.permit > 0 && !services.permits.isEmpty || shares.proxy > 0 && !services.proxied.isEmpty
            try require(isPossible, "a mixed run needs a share above 0 of something that its services can be asked for")
        case .limit: try require(!services.takes.isEmpty, "a run of limits needs a service that has some")
        case .permit: try require(!services.permits.isEmpty, "a run of permits needs a service to ask for")
        case .proxy: try require(!services.proxied.isEmpty, "a run of the proxy needs a service that has a url")
        }
        if usesProxy {
            try require(
                sidecars.allSatisfy { $0.http != nil }, "requests through the proxy need the HTTP door of each sidecar")
        }
    }

    var usesProxy: Bool {
        switch workload {
        case .proxy: true
        case .mixed: !services.proxied.isEmpty && shares.proxy > 0
        case .lock, .limit, .permit: false
        }
    }

    /// Requests through the proxy need no connection to the RESP door.
    var usesDoor: Bool { workload != .proxy }
}

/// When operations begin.
package enum Pacing: Hashable, Sendable {
    /// A rate per second on average, as of independent callers (a Poisson process), whether sidecars keep up or not.
    /// Latencies are counted from when an operation was due, so that a stall is paid by all who came during it and not
    /// only by those who happened to be under way ("coordinated omission", Tene, "How NOT to Measure Latency", 2015).
    case openLoop(rate: Double)
    /// Each client begins the next as soon as it has ended one: for finding the highest throughput. Its latencies are
    /// those of callers who wait for slow answers before they come again, and say little of others'.
    case closedLoop
}

internal import InterlockJudge

/// The workload of a run, its target sidecars, its rate and its duration.
package struct LoadPlan: Sendable {
    package var workload: Workload
    package var sidecars: [SidecarEndpoint]
    package var services: LoadServices
    package var pacing = Pacing.openLoop(rate: 1000)
    /// The number of clients, spread round robin over the sidecars. Each has one connection.
    package var clients = 64
    package var duration = Duration.seconds(30)
    /// The weights of the operations of a mixed run.
    package var weights = WorkloadWeights()

    /// The number of locks, which is also the number of subjects.
    package var names = 1000
    /// The prefix of lock and subject names.
    package var namePrefix = "bench-"
    package var skew = NameSkew.uniform
    package var modes = LockModeMix()
    /// The range of times to hold a lock or to run a permitted call, drawn uniformly.
    package var hold = Duration.zero...Duration.milliseconds(5)
    package var ttl = Duration.seconds(10)
    /// The maximum wait of an acquire.
    package var wait = Duration.seconds(5)
    /// The maximum wait of a take or permit that waits for its turn.
    package var maximumTurnWait = Duration.milliseconds(200)
    /// The fraction of takes and permits that wait for their turn.
    package var waitingFraction = 0.0
    /// The range of costs of a take.
    package var costs: ClosedRange<Int64> = 1...1
    package var clientBehavior = ClientBehavior.wellBehaved
    /// The bad phases, by service number. A service without an entry never fails calls.
    package var failurePhases: [Int: FailurePhases] = [:]

    package var seed: UInt64 = 1
    /// The maximum time to wait for an answer beyond the requested wait. After that the client closes the connection,
    /// and the outcome of the operation is unknown.
    package var patience = Duration.seconds(10)
    /// Whether the Redis clock agrees with this machine's clock, so that the times in breaker events can be converted.
    /// `false` if the run makes the Redis clock jump.
    package var trustsWallClock = true
    /// The channel on which sidecars publish events. Depends on their `redis.prefix`.
    package var eventChannel = "interlock:events"
    /// The process whose CPU time and memory are measured in addition to the sidecars'.
    package var redisProcessID: Int32?

    package init(workload: Workload, sidecars: [SidecarEndpoint], services: LoadServices = LoadServices()) {
        self.workload = workload
        self.sidecars = sidecars
        self.services = services
    }

    /// The maximum number of clients. One process cannot open this many connections to one address.
    package static let maximumClients = 60_000
    /// The maximum number of operations that are due but have not begun. Further operations count as unsent.
    package static let maximumBacklog = 200_000

    /// Checks that the plan can run.
    /// - Throws: `LoadError` with the remedy if it cannot.
    func validate() throws(LoadError) {
        func require(_ condition: Bool, _ message: String) throws(LoadError) {
            guard condition else { throw LoadError(message) }
        }
        try require(!sidecars.isEmpty, "expected at least one sidecar")
        try require(
            (1...Self.maximumClients).contains(clients), "expected 1 to \(Self.maximumClients) clients, got \(clients)")
        try require(
            (1...NameSampler.maximumNames).contains(names), "expected 1 to \(NameSampler.maximumNames) names, got \(names)")
        try require(duration > .zero, "expected a duration above 0, such as --duration 30s")
        if case .openLoop(let rate) = pacing {
            try require(rate > 0 && rate <= 1e7, "expected a rate above 0 and at most 10,000,000 per second, got \(rate)")
        }
        try require(hold.lowerBound >= .zero && wait >= .zero && maximumTurnWait >= .zero, "expected times of at least 0")
        try require(ttl >= .milliseconds(5), "expected a lease of at least 5 ms, got \(ttl)")
        try require(costs.lowerBound >= 1, "expected a cost of at least 1")
        let serviceNumbers = services.rules.indices
        try require(
            (services.takeServiceNumbers + services.permitServiceNumbers + services.proxiedServiceNumbers)
                .allSatisfy(serviceNumbers.contains),
            "expected services that the plan defines")
        switch workload {
        case .lock: break
        case .mixed:
            let allWeights = [weights.lock, weights.limit, weights.permit, weights.proxy]
            try require(
                allWeights.allSatisfy { $0 >= 0 && $0.isFinite }, "expected weights of at least 0 for a mixed run")
            let isPossible =
                weights.lock > 0 || weights.limit > 0 && !services.takeServiceNumbers.isEmpty
                || weights.permit > 0 && !services.permitServiceNumbers.isEmpty
                || weights.proxy > 0 && !services.proxiedServiceNumbers.isEmpty
            try require(isPossible, "a mixed run needs a weight above 0 for an operation that its services support")
        case .limit:
            try require(
                !services.takeServiceNumbers.isEmpty, "a limit run needs a service with limits; name one with --service")
        case .permit:
            try require(!services.permitServiceNumbers.isEmpty, "a permit run needs a service; name one with --service")
        case .proxy:
            try require(
                !services.proxiedServiceNumbers.isEmpty, "a proxy run needs a service with a url; name one with --service")
        }
        if usesProxy {
            try require(
                sidecars.allSatisfy { $0.http != nil },
                "requests through the proxy need the HTTP address of each sidecar; pass them with --http")
        }
    }

    var usesProxy: Bool {
        switch workload {
        case .proxy: true
        case .mixed: !services.proxiedServiceNumbers.isEmpty && weights.proxy > 0
        case .lock, .limit, .permit: false
        }
    }

    /// Whether the run needs RESP connections. Proxied requests do not.
    var usesRESP: Bool { workload != .proxy }
}

/// The rule for when operations begin.
package enum Pacing: Hashable, Sendable {
    /// Operations begin as a Poisson process with this average rate per second, like those of independent callers, even
    /// if sidecars cannot keep up. Latencies count from the due time of an operation. A stall therefore affects every
    /// operation that was due during the stall, not only the few that were in flight ("coordinated omission", Tene,
    /// "How NOT to Measure Latency", 2015).
    case openLoop(rate: Double)
    /// Each client begins its next operation as soon as the last one has ended, which finds the highest throughput. The
    /// latencies are those of callers that wait for slow answers before they call again, not those of independent
    /// callers.
    case closedLoop
}

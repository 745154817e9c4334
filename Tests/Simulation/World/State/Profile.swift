import Interlock
import InterlockCore
import InterlockJudge

/// A world's setup, drawn from its seed. The distribution is the same for all seeds.
struct Profile {
    /// The mode in which all clients use a lock. Mixing modes under one name would be a mistake.
    enum LockKind {
        case exclusive, readersAndWriters
        case semaphore(Int)
    }

    /// The behavior that all lock clients share. Clients that all do the same thing put the most stress on locks.
    struct LockBehavior {
        /// The range from which a client's wait is drawn.
        enum Patience: CaseIterable {
            case mixed, short, long
        }

        /// The probability that a call waits.
        var waitProbability: Double
        var patience: Patience
        /// The probability that a waiting client gives up early.
        var leaveProbability: Double
        /// The probability that a call has an OWNER.
        var ownerProbability: Double
        /// The time for which clients hold leases: milliseconds, mixed, or seconds.
        enum Holds: CaseIterable {
            case brief, mixed, long
        }

        var holds: Holds
        /// The TTL that clients request. Clients renew short leases.
        enum Leases: CaseIterable {
            case short, mixed, long
        }

        var leases: Leases
        /// The probability that a client takes a shareable lock exclusively.
        var writerProbability: Double
        /// The interval, in milliseconds, at whose multiples all clients act, as scheduled jobs do; `nil` if clients
        /// act independently.
        var actionIntervalMilliseconds: Int64?

        init(random: inout SeededRandom) {
            waitProbability = [0, 0.6, 0.6, 0.95][Int.random(in: 0..<4, using: &random)]
            patience = random.happens(0.3) ? .mixed : Patience.allCases[Int.random(in: 0..<3, using: &random)]
            leaveProbability = random.happens(0.6) ? 0.05 : 0.4
            ownerProbability = [0.1, 0.3, 0.8][Int.random(in: 0..<3, using: &random)]
            holds = Holds.allCases[Int.random(in: 0..<3, using: &random)]
            leases = random.happens(0.3) ? .mixed : Leases.allCases[Int.random(in: 0..<3, using: &random)]
            writerProbability = random.happens(0.5) ? 0.3 : 0.05
            actionIntervalMilliseconds = random.happens(0.25) ? Int64.random(in: 50...500, using: &random) : nil
        }
    }

    /// The behavior that all clients of services share.
    struct ServiceBehavior {
        /// The number of tenants for which clients make calls.
        var tenants: Int
        /// The probability that a call waits.
        var waitProbability: Double
        /// The maximum wait for a permit, in milliseconds.
        var maximumPermitWaitMilliseconds: Int64

        init(random: inout SeededRandom) {
            tenants = random.happens(0.5) ? 1 : 4
            waitProbability = [0, 0.3, 0.3, 0.6][Int.random(in: 0..<4, using: &random)]
            maximumPermitWaitMilliseconds = random.happens(0.5) ? 3000 : 15_000
        }

        func tenant(_ random: inout SeededRandom) -> Int? {
            random.happens(0.5) ? Int.random(in: 0..<tenants, using: &random) : nil
        }

        func waitMilliseconds(upTo maximumMilliseconds: Int64, _ random: inout SeededRandom) -> Int64 {
            random.happens(waitProbability) ? Int64.random(in: 10...maximumMilliseconds, using: &random) : 0
        }
    }

    var sidecars: Int
    /// The number of Redis servers in the quorum; 0 if locks do not use a quorum.
    var quorum: Int
    /// The number of sidecars in a second fleet on the same Redis, with its own prefix. Their numbers follow the first
    /// fleet's.
    var otherFleet: Int
    var waitReplicas: Int
    /// The maximum time for which a lock may be held, in milliseconds; `nil` if there is no limit.
    var maximumHoldMilliseconds: Int64?
    var fleetSize: Int
    /// The size of the larger fleet.
    var maximumFleetSize: Int { max(sidecars, otherFleet) }
    var locks: [LockKind]
    var lockBehavior: LockBehavior
    var serviceBehavior: ServiceBehavior
    var services: [ServiceDefinition]
    var lockClients: Int
    var limitClients: Int
    var permitClients: Int
    /// The pause between a client's actions, in milliseconds.
    var pauseMilliseconds: ClosedRange<Int64>
    /// The one-way delay between sidecars and Redis, in microseconds.
    var redisDelayMicroseconds: ClosedRange<Int64>
    /// The maximum clock drift in either direction, in parts per billion.
    var driftPerBillion: Int64
    /// The time between faults, in milliseconds; `nil` if there are no faults.
    var faultGapMilliseconds: ClosedRange<Int64>?
    /// The relative frequency of each kind of fault. Most worlds have only a few kinds: with all kinds, few
    /// combinations repeat.
    var faultWeights: [(kind: FaultKind, weight: Int)]
    /// Whether a program subscribes to every channel of Redis.
    var hasEavesdropper: Bool
    /// The probability that a client sends a call among other commands in one write.
    var pipelining = 0.0
    /// The domains of Envoy's rate limit service, in the first fleet.
    var domains = DomainSettings()
    var descriptorClients = 0
    /// The use of the HTTP API and its proxy.
    var apis = APIUse.respOnly
    /// The arrangement of Redis servers if Redis is neither a quorum nor shared by two fleets.
    var topology = WorldTopology.single

    init(random: inout SeededRandom, isPlain: Bool = false) {
        sidecars = Int.random(in: 1...5, using: &random)
        let isQuorum = random.happens(0.3)
        quorum = isQuorum ? (random.happens(0.7) ? 3 : 5) : 0
        otherFleet = !isQuorum && random.happens(0.15) ? Int.random(in: 1...2, using: &random) : 0
        waitReplicas = !isQuorum && random.happens(0.12) ? 1 : 0
        maximumHoldMilliseconds = random.happens(0.2) ? Int64.random(in: 2000...8000, using: &random) : nil
        fleetSize = random.happens(0.5) ? sidecars : 1
        let lockCount = Int.random(in: 1...5, using: &random)
        locks = (0..<lockCount).map { _ in
            guard !isQuorum else { return .exclusive }
            switch random.unit() {
            case ..<0.5: return .exclusive
            case ..<0.75: return .readersAndWriters
            default: return .semaphore(Int.random(in: 1...4, using: &random))
            }
        }
        lockBehavior = LockBehavior(random: &random)
        serviceBehavior = ServiceBehavior(random: &random)
        lockClients = Int.random(in: 3...16, using: &random)
        limitClients = Int.random(in: 2...10, using: &random)
        permitClients = Int.random(in: 2...10, using: &random)
        let minimumPauseMilliseconds: Int64 = random.happens(0.5) ? 5 : 40
        pauseMilliseconds = minimumPauseMilliseconds...(minimumPauseMilliseconds * 8)
        // One rack, one region, or far apart. Quorum servers are near, because each must answer within a small fraction
        // of the lease.
        redisDelayMicroseconds =
            switch random.unit() {
            case ..<0.4: 30...200
            case ..<0.8: 500...3000
            default: isQuorum ? 500...3000 : 5000...30_000
            }
        driftPerBillion = random.happens(0.5) ? Int64.random(in: 0...3_000_000, using: &random) : 0
        faultGapMilliseconds =
            switch random.unit() {
            case ..<0.15: nil
            case ..<0.6: 300...3000
            default: 3000...12_000
            }
        faultWeights = Self.faultWeights(isQuorum: isQuorum, random: &random)
        hasEavesdropper = random.happens(0.1)
        services = Self.services(
            maximumPermitWaitMilliseconds: serviceBehavior.maximumPermitWaitMilliseconds, random: &random)
        if isQuorum { drawRestarts(random: &random) }
        drawPipelining(random)
        guard !isPlain else { return }
        apis = APIUse(random)
        drawDomains(random)
        // A separate stream, so that a world with one server makes no additional draws from the main one.
        var source = random
        drawTopology(SeededRandom(seed: ~source.next()))
    }

    /// Makes quorum servers restart empty one after another, with leases renewed in between and with clocks that agree.
    /// Fences of free locks then keep rising only because of the clocks.
    private mutating func drawRestarts(random: inout SeededRandom) {
        let others = faultWeights.filter { $0.kind != .quorumRestart }
        if others.count < faultWeights.count, others.isEmpty || random.happens(0.5) {
            driftPerBillion = 0
            if random.happens(0.6) {
                lockBehavior.leases = .short
                lockBehavior.holds = .long
                faultGapMilliseconds = 3000...12_000
            }
        } else {
            faultWeights = others
        }
    }

    /// Draws from a copy of the stream, so that a world without pipelining makes no additional draws from the main one.
    private mutating func drawPipelining(_ stream: SeededRandom) {
        var source = stream
        var random = SeededRandom(seed: source.next() &+ 1)
        for _ in 0..<8 { _ = random.next() }
        if !random.happens(0.5) { pipelining = random.happens(0.5) ? 0.1 : 0.4 }
    }

    private mutating func drawTopology(_ stream: SeededRandom) {
        guard quorum == 0, otherFleet == 0 else { return }
        var random = stream
        switch random.unit() {
        case ..<0.25:
            topology = .sentinels(replicas: Int.random(in: 1...2, using: &random))
            if topology == .sentinels(replicas: 2), waitReplicas > 0 || random.happens(0.4) {
                waitReplicas = Int.random(in: 1...2, using: &random)
            }
        case ..<0.5:
            // Three primaries, because a failover needs the votes of two surviving ones.
            topology = .cluster(primaries: 3)
            for kind in [FaultKind.reshard, .nodeJoin, .nodeLeave] where random.happens(0.6) { increaseWeight(of: kind, to: 4) }
        default: return
        }
        if random.happens(0.6) { increaseWeight(of: .failover, to: 5) }
    }

    private mutating func increaseWeight(of kind: FaultKind, to weight: Int) {
        faultWeights.removeAll { $0.kind == kind }
        faultWeights.append((kind: kind, weight: weight))
    }

    private static func faultWeights(isQuorum: Bool, random: inout SeededRandom) -> [(kind: FaultKind, weight: Int)] {
        let allWeights = FaultKind.allCases.map { (kind: $0, weight: weight(of: $0, isQuorum: isQuorum)) }
        guard random.happens(0.8) else { return allWeights }
        // Other kinds of faults do not affect the locks of a quorum.
        if isQuorum, random.happens(0.6) { return allWeights.filter { $0.kind.target == .quorum } }
        // A weighted draw without repetition.
        var remaining = allWeights
        var chosen: [(kind: FaultKind, weight: Int)] = []
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            var point = Int.random(in: 0..<remaining.reduce(0) { $0 + $1.weight }, using: &random)
            guard
                let index = remaining.firstIndex(where: {
                    point -= $0.weight; return point < 0
                })
            else { break }
            chosen.append(remaining.remove(at: index))
        }
        return chosen
    }

    private static func weight(of kind: FaultKind, isQuorum: Bool) -> Int {
        switch kind {
        case .scripts, .externalLockChange, .externalCounterDeletion, .externalRegistryDeletion, .refusing: 2
        case .redisRestart, .redisWipe, .clock, .failover, .full: 3
        case .kill, .redisPause, .latency, .reload, .vanish: 4
        case .partition, .reset: 5
        case .pause: 10
        case .quorumServer: isQuorum ? 24 : 0
        case .quorumRestart: isQuorum ? 16 : 0
        // Faults of cluster members are drawn later, and only for clusters.
        case .reshard, .nodeJoin, .nodeLeave: 0
        }
    }

    private static func services(
        maximumPermitWaitMilliseconds: Int64, random: inout SeededRandom
    ) -> [ServiceDefinition] {
        (0..<Int.random(in: 1...4, using: &random)).map {
            service("s\($0)", maximumPermitWaitMilliseconds: maximumPermitWaitMilliseconds, random: &random)
        }
    }

    /// Returns one service with a plausible configuration.
    ///
    /// - Parameter maximumPermitWaitMilliseconds: the maximum wait for a permit.
    static func service(
        _ name: String, maximumPermitWaitMilliseconds: Int64, random: inout SeededRandom
    ) -> ServiceDefinition {
        var limits: [LimitDefinition] = []
        let count = random.happens(0.2) ? 0 : random.happens(0.4) ? 1 : Int.random(in: 1...3, using: &random)
        for number in 0..<count {
            let windowsInMilliseconds: [Int64] = [200, 1000, 2000, 10_000, 60_000]
            let windowMilliseconds = windowsInMilliseconds[
                Int.random(in: 0..<windowsInMilliseconds.count, using: &random)]
            let algorithms: [LimitAlgorithm] = [.fixed, .sliding, .gcra(burst: Int64.random(in: 0...6, using: &random))]
            let algorithm = algorithms[Int.random(in: 0..<3, using: &random)]
            // The limits of a service differ, so that an answer identifies its limit.
            let limit = Int64.random(in: 2...12, using: &random) * 3 + Int64(number)
            limits.append(
                LimitDefinition(
                    name: "l\(number)", limit: limit, window: .milliseconds(windowMilliseconds), algorithm: algorithm,
                    isPerSubject: random.happens(number > 0 ? 0.5 : 0.2)))
        }
        let actions: [LimitPolicy.Action] = [.deny, .wait, .trip]
        var breaker = BreakerSettings()
        breaker.window = random.happens(0.7) ? .time(.milliseconds(2000)) : .calls(20)
        breaker.minimumCalls = 5
        breaker.openFor = .milliseconds(400)...(.milliseconds(3000))
        breaker.halfOpenPermits = Int.random(in: 1...4, using: &random)
        breaker.reporters = random.happens(0.2) ? 2 : 1
        if random.happens(0.3) { breaker.slowCall = .milliseconds(150) }
        if random.happens(0.3) { breaker.consecutiveFailures = 4 }
        let probe =
            random.happens(0.5)
            ? ProbeSettings(
                target: .tcp(host: "nowhere", port: 1), interval: .seconds(1), isFollowedByTrial: random.happens(0.5),
                origin: random.happens(0.5) ? .all : .one)
            : nil
        var service = ServiceDefinition(
            name: name, upstream: nil, limits: limits,
            onLimit: LimitPolicy(
                action: actions[Int.random(in: 0..<3, using: &random)],
                pause: .milliseconds(500)...(.milliseconds(1000)),
                maximumWait: .milliseconds(maximumPermitWaitMilliseconds / 2), maximumWaiting: 40),
            concurrency: random.happens(0.3) ? Int.random(in: 1...4, using: &random) : nil,
            breaker: breaker, probe: probe,
            whenRedisIsDown: random.happens(0.6) ? .local : random.happens(0.5) ? .deny : .allow)
        service.permitLifetime = .milliseconds(random.happens(0.6) ? 2000 : 15_000)
        return service
    }
}

extension Profile {
    /// The rules that judge a world's history.
    var rules: HistoryRules {
        let (rules, proxied) = (services.map(rules), apis.proxied.map(rules))
        return HistoryRules(
            services: (otherFleet > 0 ? rules + rules : rules) + domainRules.map(\.rules) + proxied, sidecars: sidecars,
            patienceMilliseconds: WorldState.patienceMilliseconds,
            recoveryMilliseconds: WorldState.recoveryMilliseconds,
            handOverMilliseconds: quorum > 0 ? 3000 : 500 + 300 * Int64(sidecars),
            clockDrift: Double(driftPerBillion) * 2 / 1e9,
            keepsLocks: waitReplicas > 0 && waitReplicas >= replicaCount && !movesSlots)
    }

    private func rules(_ service: ServiceDefinition) -> ServiceRules {
        ServiceRules(
            name: service.name,
            limits: service.limits.map { LimitRule($0, isPerSubject: $0.isPerSubject) },
            whenRedisIsDown: OutagePolicyName(service.whenRedisIsDown),
            // A breaker that a limit or a single sidecar opens has no fleet-wide trials.
            halfOpenPermits: service.onLimit.action == .trip || service.breaker.reporters > 1
                ? nil : service.breaker.halfOpenPermits,
            permitLifetimeMilliseconds: service.permitLifetime.wholeMilliseconds)
    }
}

extension Profile: CustomStringConvertible {
    /// Whether hash slots move. The replicas of the new server may not have a lock that has just moved with its slot.
    private var movesSlots: Bool { faultWeights.contains { $0.kind.target == .slots && $0.weight > 0 } }

    /// The number of replicas per primary.
    private var replicaCount: Int {
        switch topology {
        case .single, .cluster: 1
        case .sentinels(let replicas): replicas
        }
    }

    private var topologyDescription: String {
        switch topology {
        case .single: ""
        case .sentinels(let replicas): ", Sentinels with \(replicas) replica\(replicas == 1 ? "" : "s")"
        case .cluster(let primaries): ", a cluster of \(primaries) primaries"
        }
    }

    private var replicaDescription: String {
        switch waitReplicas {
        case 0: ""
        case 1: ", waits for a replica"
        default: ", waits for \(waitReplicas) replicas"
        }
    }

    private var domainDescription: String {
        guard descriptorClients > 0 else { return "" }
        let ruleDescriptions = domainRules.map { rule in
            "\(rule.name) \(rule.limit.limit)/\(rule.limit.windowMilliseconds)ms \(rule.limit.algorithm)\(rule.value == nil ? " per value" : "")"
        }
        return "; domains: \(ruleDescriptions.joined(separator: " + ")), \(descriptorClients) clients"
    }

    var description: String {
        let serviceLines = services.map { service in
            let limits = service.limits.map { limit in
                "\(limit.limit)/\(limit.windowMilliseconds)ms \(limit.algorithm)\(limit.isPerSubject ? " per subject" : "")"
            }
            var words = [
                service.name, limits.joined(separator: " + "), service.onLimit.action.rawValue, "\(service.whenRedisIsDown)",
            ]
            if let slots = service.concurrency { words.append("\(slots) slots") }
            if service.breaker.reporters > 1 { words.append("\(service.breaker.reporters) reporters") }
            if let probe = service.probe { words.append("probed by \(probe.origin.rawValue)") }
            words.append("\(service.breaker.halfOpenPermits) trials")
            return words.filter { !$0.isEmpty }.joined(separator: ", ")
        }
        return """
            \(sidecars) sidecars\(otherFleet > 0 ? " and \(otherFleet) of another fleet" : "")\
            \(quorum > 0 ? ", quorum of \(quorum)" : "")\(replicaDescription)\(topologyDescription)\
            \(maximumHoldMilliseconds.map { ", held for at most \($0) ms" } ?? ""), fleet_size \(fleetSize), \
            clocks within \(driftPerBillion / 1000) ppm\
            \(hasEavesdropper ? ", an eavesdropper" : "")\(pipelining > 0 ? ", pipelines" : "")\
            \(domainDescription)\(apis.description)
            locks: \(locks.map { "\($0)" }.joined(separator: ", ")); clients: \(lockClients) locks, \(limitClients) limits, \(permitClients) permits
            \(serviceLines.joined(separator: "\n"))
            """
    }
}

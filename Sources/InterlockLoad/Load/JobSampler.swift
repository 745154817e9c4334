internal import InterlockCore
internal import InterlockJudge

/// Draws one job after another. The plan and its seed determine the whole sequence.
struct JobSampler: Sendable {
    private let plan: LoadPlan
    private let names: NameSampler
    private let maximumTurnWaitMilliseconds: Int64
    /// The kinds of jobs with their cumulative probabilities.
    private let thresholds: [(kind: OperationKind, cumulative: Double)]
    private var random: SeededRandom

    init(plan: LoadPlan, random: SeededRandom) {
        self.plan = plan
        self.random = random
        names = NameSampler(among: plan.names, skew: plan.skew)
        maximumTurnWaitMilliseconds = plan.maximumTurnWait.wholeMilliseconds
        thresholds = Self.thresholds(of: plan)
    }

    private static func thresholds(of plan: LoadPlan) -> [(kind: OperationKind, cumulative: Double)] {
        let weights: [(OperationKind, Double)] =
            switch plan.workload {
            case .lock: [(.acquire, 1)]
            case .limit: [(.take, 1)]
            case .permit: [(.permit, 1)]
            case .proxy: [(.proxied, 1)]
            case .mixed:
                [
                    (.acquire, plan.weights.lock),
                    (.take, plan.services.takeServiceNumbers.isEmpty ? 0 : plan.weights.limit),
                    (.permit, plan.services.permitServiceNumbers.isEmpty ? 0 : plan.weights.permit),
                    (.proxied, plan.services.proxiedServiceNumbers.isEmpty ? 0 : plan.weights.proxy),
                ]
            }
        let total = weights.reduce(0) { $0 + $1.1 }
        var cumulative = 0.0
        return weights.filter { $0.1 > 0 }.map { kind, weight in
            cumulative += weight / total
            return (kind, cumulative)
        }
    }

    mutating func next() -> LoadJob {
        switch nextKind() {
        case .take: take()
        case .permit:
            .call(service: randomService(plan.services.permitServiceNumbers), waitMilliseconds: nextWaitMilliseconds())
        case .proxied: .proxied(service: randomService(plan.services.proxiedServiceNumbers))
        case .acquire, .renew, .release, .report: lockCycle()
        }
    }

    private mutating func nextKind() -> OperationKind {
        guard thresholds.count > 1 else { return thresholds[0].kind }
        let point = random.unit()
        // Rounding may leave the last cumulative probability below 1.
        return (thresholds.first { point < $0.cumulative } ?? thresholds[0]).kind
    }

    private mutating func lockCycle() -> LoadJob {
        let lock = names.next(using: &random)
        return .lockCycle(lock: lock, mode: plan.modes.mode(ofLock: lock, random: &random))
    }

    private mutating func take() -> LoadJob {
        let service = randomService(plan.services.takeServiceNumbers)
        let costs = plan.costs
        let cost = costs.lowerBound == costs.upperBound ? costs.lowerBound : Int64.random(in: costs, using: &random)
        let subject = plan.services.subjects.contains(service) ? names.next(using: &random) : nil
        return .take(service: service, cost: cost, subject: subject, waitMilliseconds: nextWaitMilliseconds())
    }

    /// Draws the time for which a take or permit waits for its turn.
    private mutating func nextWaitMilliseconds() -> Int64 {
        plan.waitingFraction > 0 && random.happens(plan.waitingFraction) ? maximumTurnWaitMilliseconds : 0
    }

    private mutating func randomService(_ services: [Int]) -> Int {
        services.count == 1 ? services[0] : services[Int(random.unit() * Double(services.count))]
    }
}

/// The work that a client does between two idle periods.
enum LoadJob: Hashable, Sendable {
    /// Acquires, holds and releases a lock.
    case lockCycle(lock: Int, mode: LeaseMode)
    /// Takes from the limits of a service. Waits for up to `waitMilliseconds`.
    case take(service: Int, cost: Int64, subject: Int?, waitMilliseconds: Int64)
    /// Acquires a permit, makes a call and reports its outcome. Waits for the permit for up to `waitMilliseconds`.
    case call(service: Int, waitMilliseconds: Int64)
    /// Sends a request through the guarded proxy.
    case proxied(service: Int)

    /// The kind of the job's first operation.
    var kind: OperationKind {
        switch self {
        case .lockCycle: .acquire
        case .take: .take
        case .call: .permit
        case .proxied: .proxied
        }
    }
}

/// A job and its due time.
struct DueJob: Sendable {
    var job: LoadJob
    var due: Instant
}

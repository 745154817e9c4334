package import InterlockCore

/// Checks a history against all invariants as it happens.
///
/// Events arrive in order of time. An inconsistent history violates the invariant `sound`: an end without a beginning,
/// a client that sends a request before it has its last answer, an unknown service, or time that goes backward. Most
/// such events are skipped. An event with an earlier time counts at the latest time so far, and a second request
/// replaces the open one.
///
/// Memory grows with clients, names, sidecars and services, never with operations. Equal histories give equal reports.
package struct HistoryCheck: Sendable {
    /// The default maximum number of violations in a report. Further ones are only counted.
    package static let listedViolations = 100

    private let services: [ServiceRules]
    private let listedViolations: Int
    private var calls: [Int: Call] = [:]
    private var faults: FaultLog
    private var leases = LeaseBook()
    private var now = Instant.distantPast

    private var risingFences = RisingFenceChecker()
    private var exclusion = ExclusionChecker()
    private var keptLeases = KeptLeaseChecker()
    private var fencedWrites = FencedWriteChecker()
    private var freeLocks: FreeLockChecker
    private var falseRefusals: FalseRefusalChecker
    private var ghostLeases = GhostLeaseChecker()
    private var fullRedis: FullRedisChecker
    private var refusals: RefusalChecker
    private var halfOpen: HalfOpenChecker
    private var forcedStates: ForcedStateChecker
    private var limits: LimitChecker
    private var limitsRefill: LimitRefillChecker
    private var openBreakers: BreakerChecker
    private var trials: TrialChecker
    private var answers: AnsweredCallChecker
    private var recovery: RecoveryChecker

    private var operations = 0
    private var limitDecisions = 0
    private var violations: [Violation] = []
    private var found: [Violation] = []
    /// The end of the history; `nil` before `finish`.
    package private(set) var end: Instant?
    /// The number of violations so far.
    package private(set) var violationCount = 0

    /// - Parameter listedViolations: the maximum number of violations in a report.
    package init(rules: HistoryRules, listedViolations: Int = Self.listedViolations) {
        services = rules.services
        faults = FaultLog(keepsLocks: rules.keepsLocks ?? false)
        self.listedViolations = listedViolations
        freeLocks = FreeLockChecker(rules: rules)
        falseRefusals = FalseRefusalChecker(rules: rules)
        fullRedis = FullRedisChecker(rules: rules)
        refusals = RefusalChecker(rules: rules)
        halfOpen = HalfOpenChecker(rules: rules)
        forcedStates = ForcedStateChecker(rules: rules)
        limits = LimitChecker(rules: rules)
        limitsRefill = LimitRefillChecker(rules: rules)
        openBreakers = BreakerChecker(rules: rules)
        trials = TrialChecker(rules: rules)
        answers = AnsweredCallChecker(rules: rules)
        recovery = RecoveryChecker(rules: rules)
    }

    /// The results so far.
    package var report: CheckReport {
        CheckReport(
            operations: operations, lockGrants: leases.grants, limitDecisions: limitDecisions,
            staleWritesRefused: fencedWrites.staleWritesRefused, lostLeaseCount: keptLeases.losses,
            lostLeases: keptLeases.reported,
            violations: violations, violationCount: violationCount)
    }

    /// The time in milliseconds from the end of a fault until every sidecar in use served again, by fault number.
    /// Faults are missing if another fault began too soon.
    package var recoveries: [Int: Int64] { recovery.recoveries }

    /// The number of grants that could not be assigned to a fixed window. Only the bounds over longer times cover them.
    package var undecidedGrants: Int { limits.undecided }

    /// Checks the next event.
    package mutating func observe(_ event: HistoryEvent) {
        if event.at < now {
            reportInconsistency("time went backward from \(now.inMilliseconds) ms to \(event.at.inMilliseconds) ms")
        } else {
            now = event.at
        }
        switch event.kind {
        case .invoked(let client, let sidecar, let operation):
            invoked(client, sidecar, operation)
        case .ended(let client, let ending):
            ended(client, ending)
        case .wrote(let client, let lock, let lease, _, let isAccepted):
            dispatch(HistoryStep(at: now, kind: .wrote(leases.lease(lease, of: client), lock: lock, isAccepted: isAccepted)))
        case .linked(let client, let lock, let lease, let ttl, let change):
            let leaseChange = change == .left ? leases.left(lease, by: client) : nil
            let sidecar = leases.lease(lease, of: client)?.sidecar
            dispatch(
                HistoryStep(at: now, kind: .linked(lock: lock, lease: lease, ttl: ttl, change, sidecar: sidecar, leaseChange)))
        case .forced(let service, let state, let until):
            guard validateService(service, for: "a breaker") else { return }
            dispatch(HistoryStep(at: now, kind: .forced(service: service, state: state, until: until)))
        case .breakerSeen(let sidecar, let service, let state, let generation, let until):
            guard validateService(service, for: "a breaker") else { return }
            let seen = HistoryStep.Kind.breakerSeen(
                sidecar: sidecar, service: service, state: state, generation: generation, until: until)
            dispatch(HistoryStep(at: now, kind: seen))
        case .faultBegan(let fault, let kind, let sidecar):
            guard faults.began(fault, kind, sidecar: sidecar, at: now) else {
                return reportInconsistency("fault \(fault) began twice")
            }
            dispatch(HistoryStep(at: now, kind: .faultBegan(fault: fault, kind, sidecar: sidecar)))
        case .faultEnded(let fault):
            guard let ended = faults.ended(fault, at: now) else {
                return reportInconsistency("fault \(fault) ended without having begun")
            }
            dispatch(HistoryStep(at: now, kind: .faultEnded(fault: fault, ended.kind, sidecar: ended.sidecar)))
        }
        collectFindings()
    }

    /// Ends the history at `end` and judges operations without an end. No event may follow.
    package mutating func finish(at end: Instant) {
        now = max(now, end)
        self.end = now
        let open = calls.values.sorted { ($0.invoked, $0.client) < ($1.invoked, $1.client) }
        dispatch(HistoryStep(at: now, kind: .finished(open: open)))
        collectFindings()
    }

    private mutating func invoked(_ client: Int, _ sidecar: Int, _ operation: Operation) {
        if let service = operation.service, !validateService(service, for: operation.kind.rawValue) { return }
        let call = Call(
            client: client, sidecar: sidecar, operation: operation, invoked: now, grantsBefore: leases.grants)
        if let open = calls.updateValue(call, forKey: client) {
            reportInconsistency(
                """
                client \(client) requested \(operation.kind.rawValue) before its \(open.operation.kind.rawValue) of \
                \(open.invoked.inMilliseconds) ms ended
                """)
        }
        dispatch(HistoryStep(at: now, kind: .invoked(call, leases.invoked(call))))
    }

    private mutating func ended(_ client: Int, _ ending: OperationEnding) {
        guard let call = calls.removeValue(forKey: client) else {
            return reportInconsistency("an operation of client \(client) ended without having begun")
        }
        guard ending.belongs(to: call.operation) else {
            return reportInconsistency(
                "\(call.operation.kind.rawValue) of client \(client) ended with the result of another kind of operation")
        }
        operations += 1
        switch ending {
        case .done(.taken), .refused(.limited): limitDecisions += 1
        case .done(.permitted), .done(.passed):
            if let service = call.operation.service, !services[service].limits.isEmpty { limitDecisions += 1 }
        default: break
        }
        let change = leases.ended(call, ending, at: now, faults: faults)
        dispatch(HistoryStep(at: now, kind: .ended(call, ending, change)))
    }

    private mutating func dispatch(_ step: HistoryStep) {
        risingFences.observe(step, faults: faults, into: &found)
        exclusion.observe(step, faults: faults, into: &found)
        keptLeases.observe(step, faults: faults, into: &found)
        fencedWrites.observe(step, faults: faults, into: &found)
        freeLocks.observe(step, faults: faults, into: &found)
        falseRefusals.observe(step, faults: faults, into: &found)
        ghostLeases.observe(step, faults: faults, into: &found)
        fullRedis.observe(step, faults: faults, into: &found)
        refusals.observe(step, faults: faults, into: &found)
        halfOpen.observe(step, faults: faults, into: &found)
        forcedStates.observe(step, faults: faults, into: &found)
        limits.observe(step, faults: faults, into: &found)
        limitsRefill.observe(step, faults: faults, into: &found)
        openBreakers.observe(step, faults: faults, into: &found)
        trials.observe(step, faults: faults, into: &found)
        answers.observe(step, faults: faults, into: &found)
        recovery.observe(step, faults: faults, into: &found)
    }

    /// Returns whether the rules have this service; otherwise reports the event.
    private mutating func validateService(_ service: Int, for event: String) -> Bool {
        guard !services.indices.contains(service) else { return true }
        reportInconsistency("\(event) of service \(service), which the rules do not define")
        return false
    }

    private mutating func reportInconsistency(_ finding: String) {
        found.append(Violation(.sound, at: now, finding))
        collectFindings()
    }

    private mutating func collectFindings() {
        guard !found.isEmpty else { return }
        violationCount += found.count
        violations += found.prefix(max(0, listedViolations - violations.count))
        found.removeAll(keepingCapacity: true)
    }
}

extension OperationEnding {
    /// Returns whether an operation of this kind can end like this.
    fileprivate func belongs(to operation: Operation) -> Bool {
        guard case .done(let success) = self else { return true }
        switch (success, operation) {
        case (.granted, .acquire), (.renewed, .renew), (.released, .release), (.taken, .take), (.permitted, .permit),
            (.reported, .report), (.passed, .proxied):
            return true
        default:
            return false
        }
    }
}

extension HistoryCheck {
    /// Checks a history file by the rules in it. Gives the same report as the original run.
    /// - Throws: `HistoryFileError` if the file is damaged or cut off.
    package init(replaying path: String) throws(HistoryFileError) {
        var reader = try HistoryReader(path: path)
        self.init(rules: reader.rules)
        while let event = try reader.next() { observe(event) }
        if let end = reader.end { finish(at: end) }
    }
}

package import InterlockCore

/// Checks a history against all invariants as it happens.
///
/// Events must arrive in order of time. A history violates the invariant `sound` if an operation or fault ends that did
/// not begin, a client sends a request before its last one has ended, a service is unknown, or time goes backward. The
/// check skips most such events. An event with an earlier time counts at the latest time so far, and a second request
/// replaces the open one.
///
/// Memory grows with clients, names, sidecars and services, never with operations. Equal histories give equal reports.
package struct HistoryCheck: Sendable {
    /// The default maximum number of violations in a report. The check only counts the others.
    package static let maximumListedViolations = 100

    private let services: [ServiceRules]
    private let maximumListedViolations: Int
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
    private var answeredCalls: AnsweredCallChecker
    private var recovery: RecoveryChecker

    private var operationCount = 0
    private var limitDecisionCount = 0
    private var violations: [Violation] = []
    private var newViolations: [Violation] = []
    /// The end of the history; `nil` before `finish`.
    package private(set) var end: Instant?
    /// The number of violations so far.
    package private(set) var violationCount = 0

    /// Creates a check of a history with these rules.
    /// - Parameter maximumListedViolations: the maximum number of violations in a report.
    package init(rules: HistoryRules, maximumListedViolations: Int = Self.maximumListedViolations) {
        services = rules.services
        faults = FaultLog(keepsLocks: rules.keepsLocks ?? false)
        self.maximumListedViolations = maximumListedViolations
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
        answeredCalls = AnsweredCallChecker(rules: rules)
        recovery = RecoveryChecker(rules: rules)
    }

    /// The results so far.
    package var report: CheckReport {
        CheckReport(
            operations: operationCount, lockGrants: leases.grantCount, limitDecisions: limitDecisionCount,
            staleWritesRefused: fencedWrites.staleWritesRefused, lostLeaseCount: keptLeases.lossCount,
            lostLeases: keptLeases.listedLosses,
            violations: violations, violationCount: violationCount)
    }

    /// The time in milliseconds from the end of a fault until every sidecar in use served again, by fault number.
    /// A fault is missing if another one began before that.
    package var recoveryMilliseconds: [Int: Int64] { recovery.recoveryMilliseconds }

    /// The number of granted calls that could not be assigned to a fixed window. Only the bounds for longer periods
    /// cover them.
    package var undecidedGrantCount: Int { limits.undecidedGrantCount }

    /// Checks the next event.
    package mutating func observe(_ event: HistoryEvent) {
        if event.at < now {
            reportInconsistency("time went backward from \(now.inMilliseconds) ms to \(event.at.inMilliseconds) ms")
        } else {
            now = event.at
        }
        switch event.kind {
        case .invoked(let client, let sidecar, let operation):
            operationInvoked(client, sidecar, operation)
        case .ended(let client, let ending):
            operationEnded(client, ending)
        case .wrote(let client, let lock, let lease, _, let isAccepted):
            dispatch(HistoryStep(at: now, kind: .wrote(leases.lease(lease, of: client), lock: lock, isAccepted: isAccepted)))
        case .linked(let client, let lock, let lease, let ttlMilliseconds, let change):
            let leaseChange = change == .left ? leases.linkClosed(of: lease, by: client) : nil
            let kind = HistoryStep.Kind.linked(
                lock: lock, lease: lease, ttlMilliseconds: ttlMilliseconds, change,
                sidecar: leases.lease(lease, of: client)?.sidecar, leaseChange)
            dispatch(HistoryStep(at: now, kind: kind))
        case .forced(let service, let state, let until):
            guard validateService(service, for: "a breaker") else { return }
            dispatch(HistoryStep(at: now, kind: .forced(service: service, state: state, until: until)))
        case .breakerSeen(let sidecar, let service, let state, let generation, let until):
            guard validateService(service, for: "a breaker") else { return }
            let kind = HistoryStep.Kind.breakerSeen(
                sidecar: sidecar, service: service, state: state, generation: generation, until: until)
            dispatch(HistoryStep(at: now, kind: kind))
        case .faultBegan(let fault, let kind, let sidecar):
            guard faults.faultBegan(fault, kind, sidecar: sidecar, at: now) else {
                return reportInconsistency("fault \(fault) began twice")
            }
            dispatch(HistoryStep(at: now, kind: .faultBegan(fault: fault, kind, sidecar: sidecar)))
        case .faultEnded(let fault):
            guard let endedFault = faults.faultEnded(fault, at: now) else {
                return reportInconsistency("fault \(fault) ended without having begun")
            }
            dispatch(
                HistoryStep(at: now, kind: .faultEnded(fault: fault, endedFault.kind, sidecar: endedFault.sidecar)))
        }
        collectFindings()
    }

    /// Ends the history at `end` and judges the operations that have not ended. No event may follow.
    package mutating func finish(at end: Instant) {
        now = max(now, end)
        self.end = now
        let openCalls = calls.values.sorted { ($0.invoked, $0.client) < ($1.invoked, $1.client) }
        dispatch(HistoryStep(at: now, kind: .finished(open: openCalls)))
        collectFindings()
    }

    private mutating func operationInvoked(_ client: Int, _ sidecar: Int, _ operation: Operation) {
        if let service = operation.service, !validateService(service, for: operation.kind.rawValue) { return }
        let call = Call(
            client: client, sidecar: sidecar, operation: operation, invoked: now,
            earlierGrantCount: leases.grantCount)
        if let openCall = calls.updateValue(call, forKey: client) {
            reportInconsistency(
                """
                client \(client) requested \(operation.kind.rawValue) before its \(openCall.operation.kind.rawValue) \
                of \(openCall.invoked.inMilliseconds) ms ended
                """)
        }
        dispatch(HistoryStep(at: now, kind: .invoked(call, leases.callInvoked(call))))
    }

    private mutating func operationEnded(_ client: Int, _ ending: OperationEnding) {
        guard let call = calls.removeValue(forKey: client) else {
            return reportInconsistency("an operation of client \(client) ended without having begun")
        }
        guard ending.belongs(to: call.operation) else {
            return reportInconsistency(
                "\(call.operation.kind.rawValue) of client \(client) ended with the result of another kind of operation")
        }
        operationCount += 1
        switch ending {
        case .done(.taken), .refused(.limited): limitDecisionCount += 1
        case .done(.permitted), .done(.passed):
            if let service = call.operation.service, !services[service].limits.isEmpty { limitDecisionCount += 1 }
        default: break
        }
        let change = leases.callEnded(call, ending, at: now, faults: faults)
        dispatch(HistoryStep(at: now, kind: .ended(call, ending, change)))
    }

    private mutating func dispatch(_ step: HistoryStep) {
        risingFences.observe(step, faults: faults, into: &newViolations)
        exclusion.observe(step, faults: faults, into: &newViolations)
        keptLeases.observe(step, faults: faults, into: &newViolations)
        fencedWrites.observe(step, faults: faults, into: &newViolations)
        freeLocks.observe(step, faults: faults, into: &newViolations)
        falseRefusals.observe(step, faults: faults, into: &newViolations)
        ghostLeases.observe(step, faults: faults, into: &newViolations)
        fullRedis.observe(step, faults: faults, into: &newViolations)
        refusals.observe(step, faults: faults, into: &newViolations)
        halfOpen.observe(step, faults: faults, into: &newViolations)
        forcedStates.observe(step, faults: faults, into: &newViolations)
        limits.observe(step, faults: faults, into: &newViolations)
        limitsRefill.observe(step, faults: faults, into: &newViolations)
        openBreakers.observe(step, faults: faults, into: &newViolations)
        trials.observe(step, faults: faults, into: &newViolations)
        answeredCalls.observe(step, faults: faults, into: &newViolations)
        recovery.observe(step, faults: faults, into: &newViolations)
    }

    /// Returns whether the rules define this service. Reports the event if they do not.
    private mutating func validateService(_ service: Int, for event: String) -> Bool {
        guard !services.indices.contains(service) else { return true }
        reportInconsistency("\(event) of service \(service), which the rules do not define")
        return false
    }

    private mutating func reportInconsistency(_ finding: String) {
        newViolations.append(Violation(.sound, at: now, finding))
        collectFindings()
    }

    private mutating func collectFindings() {
        guard !newViolations.isEmpty else { return }
        violationCount += newViolations.count
        violations += newViolations.prefix(max(0, maximumListedViolations - violations.count))
        newViolations.removeAll(keepingCapacity: true)
    }
}

extension OperationEnding {
    /// Returns whether this is a possible ending of the operation.
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
    /// Checks a history file by the rules in it. The report equals that of the original run.
    /// - Throws: `HistoryFileError` if the file is damaged or cut off.
    package init(replaying path: String) throws(HistoryFileError) {
        var reader = try HistoryReader(path: path)
        self.init(rules: reader.rules)
        while let event = try reader.next() { observe(event) }
        if let end = reader.end { finish(at: end) }
    }
}

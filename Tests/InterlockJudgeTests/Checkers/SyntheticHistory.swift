import InterlockCore

@testable import InterlockJudge

/// A history that a test builds by hand. Times are in milliseconds. Tests may add events in any order.
struct SyntheticHistory {
    var rules = HistoryRules(services: [], sidecars: 2, patienceMilliseconds: 500, recoveryMilliseconds: 3000)
    private var events: [HistoryEvent] = []
    private var lastClient = 1000
    private var lastFault = 0

    init(services: [ServiceRules] = []) {
        rules.services = services
    }

    /// A history of one service that has one limit.
    init(_ limit: LimitRule, whenRedisIsDown: OutagePolicyName = .deny) {
        self.init(services: [ServiceRules(name: "catalog", limits: [limit], whenRedisIsDown: whenRedisIsDown)])
    }

    mutating func add(_ at: Double, _ kind: HistoryEvent.Kind) {
        events.append(HistoryEvent(at: Self.instant(at), kind))
    }

    /// Adds an operation. The client is new, unless one is given.
    mutating func operation(
        _ operation: Operation, client: Int? = nil, sidecar: Int = 0, requested: Double, ended: Double, _ ending: OperationEnding
    ) {
        lastClient += 1
        let client = client ?? lastClient
        add(requested, .invoked(client: client, sidecar: sidecar, operation))
        add(ended, .ended(client: client, ending))
    }

    mutating func grant(
        _ lease: LeaseID, to client: Int, fence: Int64, requested: Double, answered: Double, valid: Int64 = 1000,
        mode: LeaseMode = .exclusive
    ) {
        operation(
            .acquire(lock: 1, mode: mode, ttlMilliseconds: valid, waitMilliseconds: 5000), client: client,
            requested: requested,
            ended: answered,
            .done(.granted(lease: lease, fence: fence, validForMilliseconds: valid)))
    }

    mutating func renew(
        _ lease: LeaseID, of client: Int, requested: Double, answered: Double, valid: Int64 = 1000, ending: OperationEnding? = nil
    ) {
        operation(
            .renew(lock: 1, lease: lease, ttlMilliseconds: valid), client: client, requested: requested,
            ended: answered,
            ending ?? .done(.renewed(validForMilliseconds: valid)))
    }

    mutating func release(
        _ lease: LeaseID, of client: Int, requested: Double, answered: Double, ending: OperationEnding = .done(.released)
    ) {
        operation(.release(lock: 1, lease: lease), client: client, requested: requested, ended: answered, ending)
    }

    mutating func link(_ lease: LeaseID, of client: Int, ttl: Int64, _ change: LinkChange, at: Double) {
        add(at, .linked(client: client, lock: 1, lease: lease, ttlMilliseconds: ttl, change))
    }

    mutating func write(_ lease: LeaseID, of client: Int, fence: Int64, at: Double, isAccepted: Bool = true) {
        add(at, .wrote(client: client, lock: 1, lease: lease, fence: fence, isAccepted: isAccepted))
    }

    mutating func take(
        _ cost: Int64 = 1, of service: Int = 0, subject: Int? = nil, sidecar: Int = 0, requested: Double, answered: Double,
        limit: Int64 = 0, resetAfter: Int64 = 0
    ) {
        operation(
            .take(service: service, cost: cost, subject: subject, waitMilliseconds: 5000), sidecar: sidecar,
            requested: requested,
            ended: answered,
            .done(.taken(limit: limit, remaining: 0, resetAfterMilliseconds: resetAfter)))
    }

    mutating func refuse(of service: Int = 0, subject: Int? = nil, requested: Double, answered: Double) {
        operation(
            .take(service: service, cost: 1, subject: subject, waitMilliseconds: 0), requested: requested,
            ended: answered,
            .refused(.limited(retryAfterMilliseconds: 100)))
    }

    mutating func permit(
        _ permit: PermitNumber, sidecar: Int = 0, requested: Double, answered: Double, state: BreakerSnapshot.State = .closed
    ) {
        operation(
            .permit(service: 0, waitMilliseconds: 0), sidecar: sidecar, requested: requested, ended: answered,
            .done(.permitted(permit, state: state))
        )
    }

    mutating func report(_ permit: PermitNumber, isOK: Bool = true, requested: Double) {
        operation(
            .report(service: 0, permit: permit, isOK: isOK), requested: requested, ended: requested + 1,
            .done(.reported(state: .halfOpen)))
    }

    mutating func breaker(
        _ state: BreakerSnapshot.State, sidecar: Int = 0, generation: Int64, at: Double, until: Double? = nil
    ) {
        add(
            at,
            .breakerSeen(
                sidecar: sidecar, service: 0, state: state, generation: generation, until: until.map(Self.instant)))
    }

    /// Adds a change of the forced state. `state` is `nil` when an operator requests a change or withdraws it.
    mutating func forced(_ state: BreakerSnapshot.Forced?, at: Double, until: Double? = nil) {
        add(at, .forced(service: 0, state: state, until: until.map(Self.instant)))
    }

    /// Adds a fault. `to` is `nil` if it does not end.
    mutating func fault(_ kind: FaultKind, sidecar: Int? = nil, from: Double, to: Double?) {
        lastFault += 1
        add(from, .faultBegan(fault: lastFault, kind, sidecar: sidecar))
        if let to { add(to, .faultEnded(fault: lastFault)) }
    }

    /// The events in order of time. Events with equal times keep the order in which they were added.
    var sortedEvents: [HistoryEvent] {
        events.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }.map(\.element)
    }

    /// Checks the history up to `end`, by default one second after its last event.
    func check(until end: Double? = nil) -> HistoryCheck {
        var check = HistoryCheck(rules: rules)
        let events = sortedEvents
        for event in events { check.observe(event) }
        let lastEventTime = events.last?.at ?? Self.instant(0)
        check.finish(at: end.map(Self.instant) ?? lastEventTime.advanced(byMilliseconds: 1000))
        return check
    }

    /// The invariants that the history violates.
    var violatedInvariants: [Invariant] {
        Set(check().report.violations.map(\.invariant)).sorted { $0.rawValue < $1.rawValue }
    }

    static func instant(_ milliseconds: Double) -> Instant {
        Instant(nanoseconds: 1_000_000_000_000 + Int64(milliseconds * 1e6))
    }
}

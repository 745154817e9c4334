internal import CoreMetrics
internal import DequeModule
internal import InterlockCore

/// One configured service: the gate that decides its calls, and the state of its execution.
final class GuardedService {
    /// The receiver of a limiter's decision.
    enum Caller {
        case take(Completion<TakeResult>)
        case permit(GateCall)
    }

    /// The receiver of a permit.
    struct PermitCaller {
        let completion: Completion<PermitResult>
        /// The amounts that the call took from limits and keeps while it waits for a trial permit.
        var charges: [CounterCharge] = []
    }

    let name: String
    let metrics: ServiceMetrics
    // Unchecked exclusivity is safe for these three: only one event loop uses them, and no mutation is reentrant.
    @exclusivity(unchecked) var gate: ServiceGate
    @exclusivity(unchecked) var callers = Slab<Caller>()
    @exclusivity(unchecked) var permitCallers = Slab<PermitCaller>()
    /// The counters that decide calls while Redis is down. They are kept until their grants no longer count.
    var localCounters: LocalCounters?
    /// Whether the service is flushed at the end of this tick.
    var isFlushScheduled = false
    /// Whether the limiter was backed up at the last check.
    var isBackedUp = false
    /// The amounts to refund at the end of this tick.
    var pendingRefunds: [CounterCharge] = []
    var wakeUp: Deadlines.Entry?
    /// The calls that continue after the current steps, because they got a slot or their pause has ended.
    var proceeding: Deque<GateCall> = []
    /// Whether the calls in `proceeding` are being continued now.
    var isProceeding = false
    /// The reason why calls can no longer wait for the limits; `nil` if they can.
    var waitFailure: InterlockError?

    /// Half-opens the breaker when the open time is over.
    var halfOpenTimer: Deadlines.Entry?
    /// Checks the breaker at the end of a forced state.
    var forcedEnd: Deadlines.Entry?
    /// The answers to reports that would trip the breaker. They wait until Redis has answered the report in progress.
    var awaitingReport: [() -> Void] = []
    /// Whether the service is queued to have its breaker's state read again.
    var isReadPending = false
    /// Whether the breaker's state is being restored in Redis.
    var isRestoring = false
    /// The digest of the definition, cached.
    private(set) var digest: String
    /// The error for a call without a subject (the tenant that the call is for); `nil` if the service accepts such
    /// calls.
    private(set) var missingSubjectError: InterlockError?
    /// Whether the breaker's hash contains the digest. Sidecars of 0.1.0 compare it there with theirs.
    var isDeclared = false
    /// The subjects that have their own counters.
    private(set) var subjects: SubjectRegistry
    /// The earliest time of the next log entry about unreported permits.
    var nextWarningAt = Instant(nanoseconds: .min)
    /// Fires when a call's wait for a slot ends, or when a permit lapses while calls wait.
    let slotTimer = DeadlineTimer()
    /// Fires when paused calls are to be re-evaluated.
    let pauseTimer = DeadlineTimer()

    init(definition: ServiceDefinition) {
        name = definition.name
        gate = ServiceGate(definition: definition)
        subjects = SubjectRegistry(capacity: definition.maximumSubjects)
        metrics = ServiceMetrics(service: definition.name)
        digest = definition.digest
        missingSubjectError = definition.missingSubjectError
    }

    /// Returns the subject under which a call counts: its own subject, or the shared overflow subject if the service
    /// has too many.
    func countedSubject(_ subject: String?, now: Instant) -> String? {
        let subject = subject.map(SubjectRegistry.counterName(for:))
        guard let subject, let retentionMilliseconds = gate.definition.maximumSubjectRetentionMilliseconds,
            !subjects.register(subject, windowMilliseconds: retentionMilliseconds, now: now)
        else { return subject }
        metrics.subjectOverflows.increment()
        return SubjectRegistry.overflow
    }

    /// Returns the number of subjects that have their own counters.
    func knownSubjects(now: Instant) -> Int {
        subjects.count(windowMilliseconds: gate.definition.maximumSubjectRetentionMilliseconds ?? 0, now: now)
    }

    /// Applies a reloaded definition. Keeps the state and the waiting calls.
    func redefine(_ new: ServiceDefinition) {
        gate.redefine(new)
        // Strings that are equal in Swift may differ in their bytes, and so may their digests.
        digest = new.digest
        subjects.capacity = new.maximumSubjects
        missingSubjectError = new.missingSubjectError
        isDeclared = false
    }
}

extension ServiceDefinition {
    /// The maximum time, in milliseconds, for which a limit per subject remembers usage; `nil` if there is no such
    /// limit.
    fileprivate var maximumSubjectRetentionMilliseconds: Int64? {
        limits.lazy.filter(\.isPerSubject).map(\.retentionMilliseconds).max()
    }

    /// The error for a call without a subject, if a limit requires one. The text explains how to pass the subject in
    /// each API.
    fileprivate var missingSubjectError: InterlockError? {
        limits.first(where: \.requiresSubject).map { limit in
            InterlockError(
                .invalid,
                "the limit \"\(limit.name)\" of the service \"\(name)\" needs a subject (subject: required): "
                    + "pass SUBJECT over RESP, \"subject\" over HTTP, or the header Interlock-Subject through the proxy")
        }
    }
}

/// A store of values under small integer keys, which are reused. Insertion and removal are O(1) and do not allocate
/// once warm.
struct Slab<Value> {
    private var values: [Value?] = []
    private var free: [Int] = []

    var count: Int { values.count - free.count }

    mutating func insert(_ value: Value) -> Int {
        if let key = free.popLast() {
            values[key] = value
            return key
        }
        values.append(value)
        return values.count - 1
    }

    mutating func remove(_ key: Int) -> Value? {
        guard values.indices.contains(key), let value = values[key] else { return nil }
        values[key] = nil
        free.append(key)
        return value
    }

    subscript(key: Int) -> Value? {
        get { values.indices.contains(key) ? values[key] : nil }
        // Ignores keys whose value was removed.
        set { if values.indices.contains(key), values[key] != nil { values[key] = newValue } }
    }
}

extension [CounterCharge] {
    /// The number of recent charges that are searched for one of the same window. Charges of one batch are adjacent.
    private static var mergeDistance: Int { 8 }

    /// Adds the amount to a recent charge for the same window of the same counter, or appends the charge.
    mutating func add(_ charge: CounterCharge) {
        let index = suffix(Self.mergeDistance).lastIndex {
            $0.windowTime == charge.windowTime && $0.definitionIndex == charge.definitionIndex && $0.key == charge.key
                && $0.limit == charge.limit
        }
        if let index { self[index].cost += charge.cost } else { append(charge) }
    }
}

internal import CoreMetrics
package import InterlockCore

/// One configured service: its limits, its breaker, and who is waiting for which answer.
final class GuardedService {
    /// Whom the limiter's decision is for.
    enum Caller {
        case take(Completion<TakeAnswer>)
        case permit(PermitRequest)
    }

    var definition: ServiceDefinition
    let metrics: ServiceMetrics
    // Unchecked, as is `callers`: touched on one event loop, and neither calls anything back while it changes.
    @exclusivity(unchecked) var limiter: ServiceLimiter
    /// Counts while Redis is away, and is kept until what was granted then counts no more.
    var localCounters: LocalCounters?
    @exclusivity(unchecked) var callers = Slab<Caller>()
    /// It is on the list of those to be flushed at the end of this tick.
    var isFlushPlanned = false
    /// Its limiter was backed up when that was last looked at.
    var isBackedUp = false
    /// What is given back at the end of this tick.
    var unwanted: [TakenShare] = []
    var wakeUp: Deadlines.Entry?
    /// Why nobody may wait for a turn any more; `nil`: they may.
    var waitingEnd: InterlockError?

    @exclusivity(unchecked) var breaker: Breaker
    /// Half-opens it when the open time is over.
    var reopening: Deadlines.Entry?
    /// Looks at the end of a forced state.
    var forcedEnd: Deadlines.Entry?
    /// A trip by the limit or for a pause is under way, or its end.
    var isTripUnderWay = false
    /// Answers to reports that would trip the breaker: they wait for Redis' verdict on the report before.
    var awaitingReport: [() -> Void] = []
    /// How many trial permits Redis is being asked for.
    var trialsAskedFor = 0
    /// Its breaker's state is read again when it is its turn.
    var isToBeRead = false
    /// Redis has lost the breaker's state and is told.
    var isRestoring = false
    /// Of the definition.
    private(set) var digest: String
    /// Why a call that names no subject is refused; `nil`: it is not.
    private(set) var subjectDemand: InterlockError?
    /// The digest stands in the breaker's hash, where sidecars of 0.1.0 compare it with theirs.
    var isDeclared = false
    /// Until when the upstream asked to be left alone.
    var upstreamRetryAt: Instant?
    /// By which subjects it asked to be.
    var subjectPauses = SubjectPauses()
    /// Who has counters of its own.
    private(set) var subjects: SubjectBook

    /// It has not been taken out of the configuration.
    var isConfigured = true
    var permits = PermitTable()
    /// Until then it is not said again that its callers report nothing.
    var nextComplaint = Instant(nanoseconds: .min)
    var bulkhead: Bulkhead
    var paused: PausedCalls
    /// Goes off when a wait for a place is over, or a permit lapses that somebody waits for.
    let placeAlarm = Alarm()
    /// Goes off when those who wait through a pause are to be looked at again.
    let pauseAlarm = Alarm()
    var isSettlingPlaces = false

    init(definition: ServiceDefinition) {
        self.definition = definition
        subjects = SubjectBook(capacity: definition.maximumSubjects)
        metrics = ServiceMetrics(service: definition.name)
        limiter = ServiceLimiter(definitions: definition.limits, maximumWaiting: definition.onLimit.maximumWaiting)
        breaker = Breaker(settings: definition.breaker)
        digest = definition.digest
        subjectDemand = definition.subjectDemand
        bulkhead = Bulkhead(places: definition.concurrency, maximumWaiting: definition.onLimit.maximumWaiting)
        paused = PausedCalls(maximumWaiting: definition.onLimit.maximumWaiting)
    }

    var name: String { definition.name }

    /// Until when the upstream wants to hear nothing of this subject; `nil`: it does, or an operator has the last word.
    func subjectPause(of subject: String?, now: Instant) -> Instant? {
        guard let end = subjectPauses.end(of: subject, now: now), breaker.forced(now: now) == nil else { return nil }
        return end
    }

    /// As whom a call of this subject is counted.
    func counted(_ subject: String?, now: Instant) -> String? {
        let subject = subject.map(SubjectBook.counted)
        guard let subject, let memory = definition.longestSubjectMemory,
            !subjects.takeIn(subject, windowMilliseconds: memory, now: now)
        else { return subject }
        metrics.crowded.increment()
        return SubjectBook.crowd
    }

    /// Returns the number of subjects that have their own counters.
    func subjectsKnown(now: Instant) -> Int {
        subjects.count(windowMilliseconds: definition.longestSubjectMemory ?? 0, now: now)
    }

    /// The configuration was read again: state and waiters stay, the rules change.
    func redefine(_ new: ServiceDefinition) {
        if new.limits != definition.limits || new.onLimit.maximumWaiting != definition.onLimit.maximumWaiting {
            limiter = limiter.redefined(definitions: new.limits, maximumWaiting: new.onLimit.maximumWaiting)
        }
        // Texts that are the same to Swift may differ in their bytes, and the digest with them.
        digest = new.digest
        definition = new
        subjects.capacity = new.maximumSubjects
        if new.breaker != breaker.settings { subjectPauses = SubjectPauses() }
        breaker.settings = new.breaker
        subjectDemand = new.subjectDemand
        isDeclared = false
        bulkhead.resize(places: new.concurrency, maximumWaiting: new.onLimit.maximumWaiting)
        paused.resize(maximumWaiting: new.onLimit.maximumWaiting)
    }
}

extension ServiceDefinition {
    /// In milliseconds; `nil`: no limit counts per subject.
    fileprivate var longestSubjectMemory: Int64? {
        limits.lazy.filter(\.isPerSubject).map(\.memoryMilliseconds).max()
    }

    /// Names the service, the limit and what to add, as each door calls it.
    fileprivate var subjectDemand: InterlockError? {
        limits.first(where: \.requiresSubject).map { limit in
            InterlockError(
                .invalid,
                "the limit \"\(limit.name)\" of the service \"\(name)\" counts each subject apart and refuses calls without one "
                    + "(subject: required): say SUBJECT, over HTTP \"subject\", through the proxy the header Interlock-Subject")
        }
    }
}

/// The answer to a request to take from a service's limits.
package enum TakeAnswer: Sendable {
    case decided(LimitAnswer)
    /// The answer to the first of so many calls that were made as one; each further one leaves `step` less.
    case decidedAlike(LimitAnswer, count: Int, step: Int64)
    case failed(InterlockError)
}

/// Values under small integer keys that are used again. Insertion and removal are O(1) and do not allocate once warm.
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
        values.indices.contains(key) ? values[key] : nil
    }
}

/// Something taken from one counter, so that it can be given back.
package struct TakenShare: Hashable, Sendable {
    package var key: String
    package var limit: LimitDefinition
    /// The limit's place among the service's.
    package var definition: Int
    package var subject: String?
    package var cost: Int64
    /// Which window it was taken from, by Redis' time: when the fixed window ends, in milliseconds; when it was taken from a
    /// sliding window, in microseconds; until when a `gcra` limit has not got it back by itself, in microseconds.
    package var since: Int64

    package init(
        key: String, limit: LimitDefinition, definition: Int, subject: String?, cost: Int64, since: Int64
    ) {
        self.key = key
        self.limit = limit
        self.definition = definition
        self.subject = subject
        self.cost = cost
        self.since = since
    }
}

extension [TakenShare] {
    /// How far back one of the same window is looked for: calls that travelled together follow one another.
    private static var reach: Int { 8 }

    /// Adds it to one that was taken from the same window of the same counter, if there is one nearby.
    mutating func add(_ share: TakenShare) {
        let place = suffix(Self.reach).lastIndex {
            $0.since == share.since && $0.definition == share.definition && $0.key == share.key && $0.limit == share.limit
        }
        if let place { self[place].cost += share.cost } else { append(share) }
    }
}

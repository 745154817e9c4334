internal import CoreMetrics
public import InterlockCore

/// One configured service: its limits, its breaker, and who is waiting for which answer.
final class GuardedService {
    /// Whom the limiter's decision is for.
    enum Caller {
        case take(Completion<TakeAnswer>)
        case permit(PermitWish)
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
    /// How many trial permits Redis is being asked for.
    var trialsAskedFor = 0
    /// Redis has lost the breaker's state and is told.
    var isRestoring = false
    /// Of the definition.
    private(set) var digest: String
    /// The fleet has been told of the definition.
    var isDeclared = false
    /// The digest of another definition, which the fleet had last; `nil`: it is this one.
    var foreignConfiguration: String?
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
        guard let subject, let window = definition.longestSubjectWindow,
            !subjects.takeIn(subject, windowMilliseconds: window, now: now)
        else { return subject }
        metrics.crowded.increment()
        return SubjectBook.crowd
    }

    /// The configuration was read again: state and waiters stay, the rules change.
    func redefine(_ new: ServiceDefinition) {
        if new.limits != definition.limits || new.onLimit.maximumWaiting != definition.onLimit.maximumWaiting {
            limiter = limiter.redefined(definitions: new.limits, maximumWaiting: new.onLimit.maximumWaiting)
        }
        definition = new
        subjects.capacity = new.maximumSubjects
        if new.breaker != breaker.settings { subjectPauses = SubjectPauses() }
        breaker.settings = new.breaker
        digest = new.digest
        isDeclared = false
        bulkhead.resize(places: new.concurrency, maximumWaiting: new.onLimit.maximumWaiting)
        paused.resize(maximumWaiting: new.onLimit.maximumWaiting)
    }
}

extension ServiceDefinition {
    /// In milliseconds; `nil`: no limit counts per subject.
    fileprivate var longestSubjectWindow: Int64? {
        limits.lazy.filter(\.isPerSubject).map(\.window.wholeMilliseconds).max()
    }
}

/// What became of a wish to take from a service's limits.
public enum TakeAnswer: Sendable {
    case decided(LimitAnswer)
    /// The answer to the first of so many calls that were made as one; each further one leaves `step` less.
    case decidedAlike(LimitAnswer, count: Int, step: Int64)
    case failed(InterlockError)
}

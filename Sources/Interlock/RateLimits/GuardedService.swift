public import InterlockCore

/// One configured service: its limits, its breaker, and who is waiting for which answer.
final class GuardedService {
    /// Whom the limiter's decision is for.
    enum Caller {
        case take(Completion<TakeAnswer>)
        case permit(PermitWish)
    }

    /// A permit on its way: the breaker has agreed, the limit is asked.
    struct PermitWish {
        var completion: Completion<PermitAnswer>
        var trial: PermitID?
        var generation: Int64
    }

    var definition: ServiceDefinition
    let metrics: ServiceMetrics
    // Unchecked, as is `callers`: touched on one event loop, and neither calls anything back while it changes.
    @exclusivity(unchecked) var limiter: ServiceLimiter
    /// Counts while Redis is away; `nil` while it is not.
    var localCounters: LocalCounters?
    @exclusivity(unchecked) var callers = Slab<Caller>()
    /// It is on the list of those to be flushed at the end of this tick.
    var isFlushPlanned = false
    var wakeUp: Deadlines.Entry?

    @exclusivity(unchecked) var breaker: Breaker
    /// Half-opens it when the open time is over.
    var reopening: Deadlines.Entry?
    var isReportUnderWay = false
    /// A trip by the limit is under way.
    var isTripUnderWay = false
    /// Until when the upstream asked to be left alone.
    var upstreamRetryAt: Instant?

    init(definition: ServiceDefinition) {
        self.definition = definition
        metrics = ServiceMetrics(service: definition.name)
        limiter = ServiceLimiter(definitions: definition.limits, maximumWaiting: definition.onLimit.maximumWaiting)
        breaker = Breaker(settings: definition.breaker)
    }

    var name: String { definition.name }

    /// The configuration was read again: state and waiters stay, the rules change.
    func redefine(_ new: ServiceDefinition) {
        if new.limits != definition.limits || new.onLimit.maximumWaiting != definition.onLimit.maximumWaiting {
            limiter = limiter.redefined(definitions: new.limits, maximumWaiting: new.onLimit.maximumWaiting)
            localCounters = nil
        }
        definition = new
        breaker.settings = new.breaker
    }
}

/// What became of a wish to take from a service's limits.
public enum TakeAnswer: Sendable {
    case decided(LimitAnswer)
    case failed(InterlockError)
}

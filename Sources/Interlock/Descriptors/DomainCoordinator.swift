internal import CoreMetrics
internal import InterlockCore
internal import NIOCore
internal import RedisClient

/// Decides requests to the domains of Envoy's rate limit service. Sends the batches of the domains' limiters to Redis,
/// and delivers each decision within the timeout. Confined to the coordinator's event loop.
final class DomainCoordinator {
    private final class Domain {
        struct Caller {
            var completion: Completion<DescriptorResult>
            var requested: [RequestedDescriptor]
            /// Whether the call only peeks and is excluded from the metrics.
            var isExcludedFromMetrics = false
        }

        var limiter: DomainLimiter
        var metrics: DomainMetrics
        /// The digest of the rules. Cached, because computing it for a thousand rules at every reload is too slow.
        var digest: String
        var callers = Slab<Caller>()
        /// The counters for decisions while Redis is unreachable or late. They are kept until their grants no longer
        /// count.
        var localCounters: LocalCounters?
        var isFlushScheduled = false
        /// Whether a timer is set for the timeout of the oldest request.
        var isTimerSet = false

        init(_ domain: RateLimitDomain) {
            limiter = DomainLimiter(domain: domain)
            digest = domain.digest
            metrics = DomainMetrics(domain: domain.name, index: limiter.index)
        }

        var name: String { limiter.domain.name }
    }

    /// The maximum number of local counters of a domain; about 10 MB.
    private static let maximumLocalCounters = 50_000

    private let runtime: CoordinatorRuntime
    /// The maximum time to wait for Redis before a request is decided without it.
    private let timeoutMilliseconds: Int64
    private var domains: [ExactText: Domain] = [:]
    private var domainsToFlush: [Domain] = []
    /// A buffer that is reused between batches.
    private var resolutions: [DomainLimiter.RequestResolution] = []

    init(runtime: CoordinatorRuntime, domains: [RateLimitDomain], timeout: Duration) {
        self.runtime = runtime
        timeoutMilliseconds = timeout.wholeMilliseconds
        for domain in domains { self.domains[ExactText(domain.name)] = Domain(domain) }
    }

    /// Decides whether the limits allow a request. Calls `completion` once, within the timeout and possibly before this
    /// method returns.
    /// - Parameter isExcludedFromMetrics: whether the request is excluded from the metrics.
    /// - Returns: whether the domain is configured; if not, `completion` is not called.
    func decide(
        _ name: String, _ requested: [RequestedDescriptor], isExcludedFromMetrics: Bool = false,
        completion: Completion<DescriptorResult>
    ) -> Bool {
        guard let domain = domains[ExactText(name)] else { return false }
        let now = runtime.time.now()
        let id = domain.callers.insert(
            .init(completion: completion, requested: requested, isExcludedFromMetrics: isExcludedFromMetrics))
        switch domain.limiter.admit(requested, id: id, now: now) {
        case .decided(let decision): deliver(domain, id, decision)
        case .queued:
            scheduleFlush(of: domain)
            setTimer(domain, now: now)
        }
        return true
    }

    /// Applies new rules. The rules under which a request arrived decide it.
    func redefine(_ definitions: [RateLimitDomain]) {
        var newDomains: [ExactText: Domain] = [:]
        for definition in definitions {
            let name = ExactText(definition.name)
            guard let existing = domains[name] else {
                newDomains[name] = Domain(definition)
                continue
            }
            newDomains[name] = existing
            guard existing.limiter.domain != definition else { continue }
            existing.limiter.redefine(definition)
            existing.digest = definition.digest
            existing.metrics.destroy()
            existing.metrics = DomainMetrics(domain: definition.name, index: existing.limiter.index)
        }
        for (name, domain) in domains where newDomains[name] == nil { domain.metrics.destroy() }
        domains = newDomains
    }

    /// Returns the rule that matches a quota bucket, whose entries are unordered; `nil` if no rule matches.
    func match(unordered entries: [DescriptorEntry], in domain: String) -> DescriptorIndex.Match? {
        domains[ExactText(domain)]?.limiter.index.match(unordered: entries)
    }

    /// The digests of all domains, by name.
    var digests: [String: String] {
        Dictionary(domains.values.map { ($0.name, $0.digest) }, uniquingKeysWith: { $1 })
    }

    /// Reports on all domains, sorted by name.
    func reports() -> [DomainReport] {
        domains.values.sorted { $0.name < $1.name }.map { domain in
            DomainReport(
                domain: domain.limiter.domain,
                rules: domain.limiter.index.rules.map {
                    DomainReport.Rule(path: $0.path, rule: $0.rule, decisions: domain.metrics.decisions(of: $0))
                },
                counterCount: domain.limiter.countersKnown(now: runtime.time.now()))
        }
    }

    /// Returns whether the rule only reports and never refuses.
    func isShadow(_ rule: DescriptorIndex.Rule, in domain: String) -> Bool {
        rule.rule.isShadow || domains[ExactText(domain)]?.limiter.domain.isShadow == true
    }

    /// Returns the policy for outages; `nil` if the domain is not configured.
    func policy(of domain: String) -> OutagePolicy? { domains[ExactText(domain)]?.limiter.domain.whenRedisIsDown }

    /// Forgets cached refusals, because Redis may have lost their counters.
    func redisReconnected() { for domain in domains.values { domain.limiter.forgetRefusals() } }

    func refreshGauges() {
        let now = runtime.time.now()
        for domain in domains.values { domain.metrics.counters.record(domain.limiter.countersKnown(now: now)) }
    }

    // MARK: Batches

    /// Schedules a flush at the end of the tick, so that all requests of one tick share a batch.
    private func scheduleFlush(of domain: Domain) {
        guard !domain.isFlushScheduled, domain.limiter.mayFlush else { return }
        domain.isFlushScheduled = true
        domainsToFlush.append(domain)
        guard domainsToFlush.count == 1 else { return }
        runtime.eventLoop.assumeIsolated().execute { [self] in
            let domains = domainsToFlush
            domainsToFlush.removeAll(keepingCapacity: true)
            for domain in domains {
                domain.isFlushScheduled = false
                flush(domain)
            }
        }
    }

    private func flush(_ domain: Domain) {
        let sentAt = runtime.time.now()
        guard let batch = domain.limiter.nextBatch() else { return }
        guard runtime.pipeline.isUp else {
            _ = domain.limiter.end(batch)
            decideLocally(domain, batch, now: sentAt)
            return scheduleNextFlush(domain)
        }
        runtime.pipeline.send(TakeScript(keys: runtime.keys, scope: .domain(domain.name), batch: batch.limits)) { [self] result in
            let now = runtime.time.now()
            runtime.metrics.limitTime.recordNanoseconds(now.nanoseconds - sentAt.nanoseconds)
            let hasWaitingRequests = domain.limiter.end(batch)
            switch result {
            case .success(let verdict):
                if let counters = domain.localCounters, counters.isExpired(at: now) { domain.localCounters = nil }
                if hasWaitingRequests { apply(domain, batch, verdict, sentAt: sentAt, now: now) }
            case .failure(let error) where hasWaitingRequests:
                if error.isUnavailability { decideLocally(domain, batch, now: now) } else { fail(domain, batch, error) }
            case .failure: break
            }
            scheduleNextFlush(domain)
        }
    }

    private func scheduleNextFlush(_ domain: Domain) { if domain.limiter.hasArrivals { scheduleFlush(of: domain) } }

    private func apply(
        _ domain: Domain, _ batch: DescriptorBatch, _ verdict: BatchVerdict, cause: RequestDecision.Cause = .limit,
        sentAt: Instant, now: Instant
    ) {
        // Taken out of the property, in case a delivery applies another batch.
        var buffer = resolutions
        resolutions = []
        domain.limiter.apply(verdict, of: batch, cause: cause, sentAt: sentAt, now: now, into: &buffer)
        for resolution in buffer { deliver(domain, resolution.id, resolution.decision) }
        buffer.removeAll(keepingCapacity: true)
        resolutions = buffer
    }

    private func deliver(_ domain: Domain, _ id: Int, _ decision: RequestDecision) {
        guard let caller = domain.callers.remove(id) else { return }
        if !caller.isExcludedFromMetrics { domain.metrics.count(decision, of: caller.requested) }
        caller.completion(.decided(decision))
    }

    private func fail(_ domain: Domain, _ batch: DescriptorBatch, _ error: RedisError) {
        for request in batch.requests {
            guard let caller = domain.callers.remove(request.id) else { continue }
            domain.metrics.failed.increment()
            caller.completion(.failed(InterlockError(error)))
        }
    }

    // MARK: Redis is unreachable or late

    private func decideLocally(_ domain: Domain, _ batch: DescriptorBatch, now: Instant) {
        domain.metrics.decidedLocally.increment(by: batch.requests.count)
        switch domain.limiter.domain.whenRedisIsDown {
        case .allow: apply(domain, batch, .allGranted(batch.limits), sentAt: now, now: now)
        case .deny: apply(domain, batch, .noneGranted(batch.limits), cause: .redis, sentAt: now, now: now)
        case .local:
            var counters =
                domain.localCounters
                ?? LocalCounters(capacity: min(domain.limiter.domain.maximumCounters, Self.maximumLocalCounters))
            let verdict = counters.evaluate(batch.limits, sidecars: runtime.sidecarCount, now: now)
            domain.localCounters = counters
            apply(domain, batch, verdict, cause: .local, sentAt: now, now: now)
        }
    }

    /// Sets the timer of a domain, which serves all of its requests: it fires at the timeout of the oldest request, and
    /// is then set for the next one.
    private func setTimer(_ domain: Domain, now: Instant) {
        guard !domain.isTimerSet, let oldest = domain.limiter.oldest else { return }
        domain.isTimerSet = true
        runtime.deadlines.schedule(at: oldest.advanced(byMilliseconds: timeoutMilliseconds)) { [self, domain] in
            domain.isTimerSet = false
            let now = runtime.time.now()
            for batch in domain.limiter.removeOverdue(until: now.advanced(byMilliseconds: -timeoutMilliseconds)) {
                decideLocally(domain, batch, now: now)
            }
            setTimer(domain, now: now)
        }
    }
}

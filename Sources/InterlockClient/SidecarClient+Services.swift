extension SidecarClient {
    /// Counts a call against all limits of a service, or against none of them when one is used up.
    /// - Parameters:
    ///   - service: the service's name.
    ///   - cost: how many calls it counts as.
    ///   - subject: the tenant, user or address that it counts for, where limits are per subject.
    ///   - wait: how long to wait for a turn. The sidecar may wait for less: see `SidecarStatus.maximumWait`.
    ///   - isNamed: whether the answer is to name the limit that binds. Takes that ask for less can be made many at a time.
    /// - Returns: what the limit that binds says; a refusal is an answer.
    /// - Throws: `InterlockError`; `CancellationError` when the task is cancelled.
    public func takeLimit(
        _ service: String, cost: Int64 = 1, subject: String? = nil, wait: Duration = .zero, isNamed: Bool = false
    ) async throws -> SidecarLimit {
        let request = UpstreamCallRequest(service: service, cost: cost, subject: subject, wait: wait)
        return try await send(LimitCalls.Take(request, isNamed: isNamed))
    }

    /// What a call of cost 1 would be told now by the limits of a service; takes nothing.
    /// - Parameter isNamed: whether the answer is to name the limit that binds.
    public func peekLimit(_ service: String, subject: String? = nil, isNamed: Bool = false) async throws -> SidecarLimit {
        try await send(LimitCalls.Peek(service: service, subject: subject, isNamed: isNamed))
    }

    /// What a request would be told now by the rule of a domain that its descriptor meets; takes nothing.
    /// - Parameter descriptor: as in the key of its counter, `key=value,key=value` with `%2C` for a comma.
    public func peekLimit(ofDomain domain: String, descriptor: String) async throws -> SidecarLimit {
        try await send(LimitCalls.Peek(service: domain, descriptor: descriptor, isNamed: true))
    }

    /// Where each limit of a service stands that applies to a call, in the order of the configuration; takes nothing.
    public func limits(of service: String, subject: String? = nil) async throws -> [SidecarLimitStanding] {
        try await send(LimitCalls.List(service: service, subject: subject))
    }

    /// Asks for permission for one upstream call: from the limits, the breaker and the bound on calls under way of a service.
    /// - Parameters: as those of `takeLimit`.
    public func acquirePermit(
        _ service: String, cost: Int64 = 1, subject: String? = nil, wait: Duration = .zero
    ) async throws -> SidecarPermission {
        let request = UpstreamCallRequest(service: service, cost: cost, subject: subject, wait: wait)
        let permission = try await send(PermitCalls.Acquire(request))
        guard Task.isCancelled else { return permission }
        if case .granted(let permit) = permission {
            // The call is not made.
            _ = try? await deliver(PermitCalls.Report(service: service, permit: permit.id, outcome: .ignored))
        }
        throw CancellationError()
    }

    /// Reports how a permitted call went, also when the task is cancelled.
    /// - Parameters:
    ///   - permit: as it was granted, by this sidecar.
    ///   - outcome: how the call went.
    ///   - latency: how long the call took.
    ///   - status: its HTTP status.
    ///   - retryAfter: what the upstream asked for.
    /// - Returns: the breaker's state after it.
    @discardableResult
    public func reportPermit(
        _ permit: SidecarPermit, _ outcome: SidecarOutcome, latency: Duration? = nil, status: Int? = nil,
        retryAfter: Duration? = nil
    ) async throws -> SidecarBreaker.State {
        try await deliver(
            PermitCalls.Report(
                service: permit.service, permit: permit.id, outcome: outcome, latency: latency, status: status,
                retryAfter: retryAfter))
    }

    /// A service's breaker.
    public func breaker(_ service: String) async throws -> SidecarBreaker {
        try await send(BreakerCalls.Inspect(service: service))
    }

    /// The breakers of all services of the sidecar.
    public func breakers() async throws -> [SidecarBreaker] {
        try await send(BreakerCalls.List())
    }

    /// Forces a breaker in the whole fleet. Needs an API key with the role `admin` where keys are configured.
    /// - Parameters:
    ///   - service: the service's name.
    ///   - state: `nil`: the breaker acts by itself again.
    ///   - duration: for how long; `nil`: until somebody ends it.
    ///   - reason: for others to read.
    public func forceBreaker(
        _ service: String, _ state: SidecarBreaker.Forced?, for duration: Duration? = nil, reason: String? = nil
    ) async throws {
        try await send(BreakerCalls.Force(service: service, state: state, duration: duration, reason: reason))
    }

    /// The live sidecars, by ID.
    public func fleet() async throws -> [SidecarMember] {
        try await send(FleetCalls.List())
    }

    /// What the sidecar says of itself, its Redis and its fleet.
    public func status() async throws -> SidecarStatus {
        try await send(StatusCalls.Report())
    }

    /// What the sidecar's console shows, as one JSON object.
    /// - Parameter words: the view and its options, as `LIVE.VIEW` takes them.
    package func look(_ words: [String]) async throws -> String {
        try await send(ViewCalls.Look(words: words))
    }
}

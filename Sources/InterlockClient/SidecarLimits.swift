public import InterlockCore

/// Rate limits through a sidecar: `client.limits`. An embedded coordinator has the same methods, except for those that
/// take a descriptor.
public struct SidecarLimits: Sendable {
    let client: SidecarClient

    /// Takes `cost` from all limits of a service that apply, or from none of them.
    /// - Parameters:
    ///   - service: the service's name.
    ///   - cost: the number of calls that this one counts as.
    ///   - subject: the tenant, user or address that the call counts for, in limits per subject.
    ///   - wait: how long to wait until the limits allow the call. The sidecar may wait for less: see
    ///     `SidecarStatus.maximumWait`.
    ///   - includesLimitName: whether the decision names the limit that determined it. Without the name, the sidecar
    ///     batches takes that arrive together, which is faster.
    /// - Returns: the decision. A refusal is not an error.
    /// - Throws: `InterlockError`, or `CancellationError` if the task is cancelled.
    public func take(
        from service: String, cost: Int = 1, subject: String? = nil, wait: Duration = .zero, includesLimitName: Bool = true
    ) async throws -> LimitDecision {
        let request = UpstreamCallRequest(service: service, cost: Int64(cost), subject: subject, wait: wait)
        guard includesLimitName else { return try await client.send(LimitCalls.Take(request)) }
        return try await withLimitName { try await client.send(LimitCalls.Take(request, includesLimitName: $0)) }
    }

    /// Returns the decision that a call of cost 1 would get now, without taking anything.
    public func peek(at service: String, subject: String? = nil) async throws -> LimitDecision {
        try await withLimitName {
            try await client.send(LimitCalls.Peek(service: service, subject: subject, includesLimitName: $0))
        }
    }

    /// Returns the decision of the domain's rule that matches a descriptor, without taking anything.
    ///
    /// - Parameters:
    ///   - domain: the name of the domain.
    ///   - descriptor: the descriptor as spelled in its counter's key: `key=value,key=value`, with `%2C` for a comma.
    public func peek(at domain: String, descriptor: String) async throws -> LimitDecision {
        try await client.send(LimitCalls.Peek(service: domain, descriptor: descriptor, includesLimitName: true))
    }

    /// Returns the state of each limit of a service that applies to a call, in the order of the configuration, without
    /// taking anything.
    public func list(of service: String, subject: String? = nil) async throws -> [LimitState] {
        try await client.send(LimitCalls.List(service: service, subject: subject))
    }

    /// Requests a decision with the name of the limit that determined it. A sidecar of version 0.1.0 rejects the option
    /// `NAMED` before it takes anything. This method then repeats the request without the option.
    private func withLimitName(_ request: (_ includesLimitName: Bool) async throws -> LimitDecision) async throws -> LimitDecision
    {
        do {
            return try await request(true)
        } catch let error as InterlockError where error.code == .invalid && error.message.contains("\"NAMED\"") {
            return try await request(false)
        }
    }
}

extension SidecarClient {
    /// Rate limits.
    public nonisolated var limits: SidecarLimits { SidecarLimits(client: self) }
}

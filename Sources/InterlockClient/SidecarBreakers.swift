public import InterlockCore

/// Circuit breakers through a sidecar: `client.breakers`. An embedded coordinator has the same methods.
public struct SidecarBreakers: Sendable {
    let client: SidecarClient

    /// Returns a service's breaker as the sidecar sees it.
    public func status(of service: String) async throws -> BreakerStatus {
        try await client.send(BreakerCalls.Inspect(service: service))
    }

    /// Returns the breakers of all services that the sidecar has configured.
    public func all() async throws -> [BreakerStatus] {
        try await client.send(BreakerCalls.List())
    }

    /// Forces a breaker's state for the whole fleet. Requires an API key with the role `admin` if keys are configured.
    /// - Parameters:
    ///   - service: the service's name.
    ///   - state: the state; `nil` ends the forced state and closes the breaker.
    ///   - lifetime: how long the state stays forced; `nil` for no end.
    ///   - reason: a human-readable explanation, at most 256 bytes on one line.
    public func force(
        _ service: String, to state: BreakerSnapshot.Forced?, for lifetime: Duration? = nil, reason: String = ""
    ) async throws {
        try await client.send(BreakerCalls.Force(service: service, state: state, duration: lifetime, reason: reason))
    }
}

extension SidecarClient {
    /// Circuit breakers.
    public nonisolated var breakers: SidecarBreakers { SidecarBreakers(client: self) }
}

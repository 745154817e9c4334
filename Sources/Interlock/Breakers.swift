public import InterlockCore

/// Circuit breakers of the configured services: `coordinator.breakers`. A client of a sidecar has the same methods.
public struct Breakers: Sendable {
    private let coordinator: Coordinator

    init(coordinator: Coordinator) {
        self.coordinator = coordinator
    }

    /// Returns the state of a service's breaker that this program knows, without asking Redis.
    /// - Throws: `InterlockError` if no such service is configured.
    public func status(of service: String) async throws -> BreakerStatus { try await coordinator.breaker(service: service) }

    /// Returns the state of every service's breaker, sorted by name, without asking Redis.
    public func all() async -> [BreakerStatus] { await coordinator.allBreakers() }

    /// Forces a breaker's state for the whole fleet.
    ///
    /// - Parameters:
    ///   - service: the service's name.
    ///   - state: the state; `nil` ends the forced state and closes the breaker.
    ///   - lifetime: how long the state stays forced; `nil` for no end.
    ///   - reason: a human-readable description, at most 256 bytes on one line.
    ///   - by: the person or program that forces the state, for the fleet's event; `nil` for this program's host.
    /// - Throws: `InterlockError`.
    public func force(
        _ service: String, to state: BreakerSnapshot.Forced?, for lifetime: Duration? = nil, reason: String = "",
        by: String? = nil
    ) async throws {
        _ = try await coordinator.forceBreaker(
            service: service, to: state, forMilliseconds: lifetime?.wholeMilliseconds, reason: reason,
            by: by ?? coordinator.configuration.host)
    }
}

extension Coordinator {
    /// Circuit breakers of the configured services.
    public nonisolated var breakers: Breakers { Breakers(coordinator: self) }
}

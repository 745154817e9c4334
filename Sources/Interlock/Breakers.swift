public import FoundationEssentials
public import InterlockCore

/// Circuit breakers of the configured services: `coordinator.breakers`.
public struct Breakers: Sendable {
    private let coordinator: Coordinator

    init(coordinator: Coordinator) {
        self.coordinator = coordinator
    }

    /// A service's breaker as this program sees it. Redis is not asked.
    /// - Throws: `InterlockError` when no such service is configured.
    public func status(of service: String) async throws -> BreakerStatus { try await coordinator.breaker(service: service) }

    /// All services' breakers, in the order of their names. Redis is not asked.
    public func all() async -> [BreakerStatus] { await coordinator.allBreakers() }

    /// Forces a breaker's state for the whole fleet.
    ///
    /// - Parameters:
    ///   - service: the service's name.
    ///   - state: the state; `nil`: back to automatic, closed.
    ///   - lifetime: after so long it goes back to automatic; `nil`: it does not by itself.
    ///   - reason: for people, at most 256 bytes on one line.
    ///   - by: who does it, for the event that tells of it.
    /// - Throws: `InterlockError`.
    @discardableResult
    public func force(
        _ service: String, to state: BreakerSnapshot.Forced?, for lifetime: Duration? = nil, reason: String = "", by: String
    ) async throws -> BreakerStatus {
        try await coordinator.forceBreaker(
            service: service, to: state, forMilliseconds: lifetime?.wholeMilliseconds, reason: reason, by: by)
    }
}

extension Coordinator {
    /// Circuit breakers of the configured services.
    public nonisolated var breakers: Breakers { Breakers(coordinator: self) }
}

extension BreakerSnapshot {
    /// Since when it is in its state, by Redis' clock; `nil`: it never changed.
    public var since: Date? { Date(epochMilliseconds: sinceMilliseconds) }
    /// When an open breaker half-opens, by Redis' clock; `nil`: it does not by itself.
    public var until: Date? { Date(epochMilliseconds: untilMilliseconds) }
    /// When the forced state ends, by Redis' clock; `nil`: it does not by itself.
    public var forcedUntil: Date? { Date(epochMilliseconds: forcedUntilMilliseconds) }
}

extension InterlockEvent {
    /// When it happened, by Redis' clock; by this host's for what a program tells while Redis is away.
    public var date: Date { Date(timeIntervalSince1970: Double(atMilliseconds) / 1000) }
}

extension Date {
    /// `nil`: 0, which stands for never.
    fileprivate init?(epochMilliseconds: Int64) {
        guard epochMilliseconds > 0 else { return nil }
        self.init(timeIntervalSince1970: Double(epochMilliseconds) / 1000)
    }
}

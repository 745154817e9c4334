internal import InterlockCore

/// Rate limits of the configured services: `coordinator.limits`.
///
/// `coordinator.services.call` takes from a service's limits automatically. Use this for calls that are made in another
/// way.
public struct Limits: Sendable {
    private let coordinator: Coordinator

    init(coordinator: Coordinator) {
        self.coordinator = coordinator
    }

    /// Takes `cost` from all limits of a service that apply, or from none of them.
    ///
    /// - Parameters:
    ///   - service: the service's name.
    ///   - cost: the amount to take, 1 or more.
    ///   - subject: the tenant that the call counts for in limits per subject.
    ///   - wait: the maximum wait, limited to the configuration's `maximumWait`; zero to refuse the call instead of
    ///     waiting.
    /// - Throws: `InterlockError`, with the code `invalid` also for a cost above what a limit can ever grant at once.
    ///   Cancelling the task cancels the wait.
    public func take(
        from service: String, cost: Int = 1, subject: String? = nil, wait: Duration = .zero
    ) async throws -> LimitDecision {
        try LimitRequest.check(cost: Int64(cost), subject: subject)
        let decision = try await coordinator.take(
            service: service, cost: Int64(cost), subject: subject, waitMilliseconds: max(0, wait.wholeMilliseconds))
        return LimitDecision(decision)
    }

    /// Returns how a call of cost 1 would be decided now, without taking anything.
    /// - Throws: `InterlockError`.
    public func peek(at service: String, subject: String? = nil) async throws -> LimitDecision {
        try LimitRequest.check(cost: 1, subject: subject)
        return LimitDecision(try await coordinator.peek(service: service, subject: subject))
    }

    /// Returns the state of each limit that applies to a call, in the order of the definition, without taking anything.
    /// - Throws: `InterlockError`.
    public func list(of service: String, subject: String? = nil) async throws -> [LimitState] {
        try LimitRequest.check(cost: 1, subject: subject)
        return try await coordinator.listLimits(service: service, subject: subject)
    }
}

extension LimitRequest {
    /// Checks the cost and the subject of a call.
    /// - Throws: `InterlockError` if either is invalid.
    static func check(cost: Int64, subject: String?) throws(InterlockError) {
        guard costRange.contains(cost) else {
            throw InterlockError(.invalid, "expected a cost from \(costRange.lowerBound) to \(costRange.upperBound), got \(cost)")
        }
        guard let subject else { return }
        do {
            _ = try ResourceName(subject)
        } catch {
            throw InterlockError(.invalid, "the call's subject: \(error)")
        }
    }
}

extension Coordinator {
    /// Rate limits of the configured services.
    public nonisolated var limits: Limits { Limits(coordinator: self) }
}

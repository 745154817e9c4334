import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

/// Helpers for tests of breakers; the service is called `catalog`.
extension Fleet {
    /// Acquires a permit, which must be granted.
    func permit(_ sidecar: Coordinator) async throws -> PermitID {
        guard case .granted(let id, _) = try await sidecar.acquirePermit(service: "catalog") else {
            throw InterlockError(.other, "the permit was refused")
        }
        return id
    }

    /// Makes a call, reports its outcome and returns the resulting state.
    @discardableResult
    func report(
        _ sidecar: Coordinator, _ outcome: Outcome, latency: Int64? = nil, status: Int? = nil, retryAfter: Int64? = nil
    ) async throws -> BreakerSnapshot.State {
        let id = try await permit(sidecar)
        let report = OutcomeReport(
            outcome: outcome, latencyMilliseconds: latency, status: status, retryAfterMilliseconds: retryAfter)
        return try await sidecar.reportPermit(service: "catalog", permit: id, report)
    }

    /// Waits until every sidecar's breaker is in this state.
    func expect(_ state: BreakerSnapshot.State) async throws {
        try await eventually(within: .seconds(10), "every sidecar's breaker is \(state.rawValue)") {
            for sidecar in sidecars where try await sidecar.breaker(service: "catalog").state != state { return false }
            return true
        }
    }

    /// Returns a field of the breaker's hash.
    func breaker(_ field: String) async throws -> String {
        try await cli("HGET", "interlock:breaker:{catalog}", field).text ?? ""
    }

    /// Waits until every sidecar knows all others.
    func waitUntilFleetIsKnown() async throws {
        try await eventually(within: .seconds(20), "every sidecar knows the fleet") {
            for sidecar in sidecars where await sidecar.status.fleet.count != sidecars.count { return false }
            return true
        }
    }
}

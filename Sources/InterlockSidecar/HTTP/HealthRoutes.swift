internal import HTTPTypes
internal import Interlock

/// Alive, ready, measured, and described.
struct HealthRoutes {
    let coordinator: Coordinator
    let metrics: PrometheusRegistry

    private struct StatusReply: Encodable {
        var status: String
    }

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.get, "/healthz", for: .anyone, isServedWhenFull: true) { _ in try .json(StatusReply(status: "alive")) },
            HTTPRoute(.get, "/readyz", for: .anyone, isServedWhenFull: true, answer: readiness),
            HTTPRoute(.get, "/metrics", isServedWhenFull: true, answer: exposition),
            HTTPRoute(.get, "/openapi.yaml") { _ in .text(Self.contract, mediaType: "application/yaml") },
        ]
    }

    /// What this door speaks, as OpenAPI 3.1.
    static var contract: String { String(decoding: PackageResources.openapi_yaml, as: UTF8.self) }

    private func readiness(_ call: HTTPCall) async throws -> HTTPAnswer {
        guard await coordinator.isReady else {
            throw HTTPProblem(
                InterlockError(.unavailable, "this sidecar is not connected to Redis, or is going down; see its log"))
        }
        return try .json(StatusReply(status: "ready"))
    }

    private func exposition(_ call: HTTPCall) async throws -> HTTPAnswer {
        await coordinator.refreshGauges()
        return .text(metrics.exposition(), mediaType: PrometheusRegistry.contentType)
    }
}

internal import Interlock
internal import NIOCore
internal import NIOHTTP1
internal import SidecarTelemetry

/// Liveness, readiness, metrics, and the OpenAPI description.
struct HealthRoutes {
    let coordinator: Coordinator
    let metrics: NIOLoopBound<MetricsPages>

    private struct StatusReply: Encodable {
        var status: String
    }

    var routes: [HTTPRoute] {
        [
            HTTPRoute(
                .GET, "/healthz", for: .anyone, isTraced: false, isServedWhenFull: true,
                onEventLoop: { _, responder in responder(.object(["status": .string("alive")])) }),
            HTTPRoute(.GET, "/readyz", for: .anyone, isServedWhenFull: true, inTask: readiness),
            HTTPRoute(.GET, "/metrics", isTraced: false, isServedWhenFull: true, onEventLoop: exposition),
            HTTPRoute(.GET, "/openapi.yaml") { _ in .text(Self.contract, mediaType: "application/yaml") },
        ]
    }

    /// The description of this API in OpenAPI 3.1.
    static var contract: String { String(decoding: PackageResources.openapi_yaml, as: UTF8.self) }

    private func readiness(_ call: HTTPCall) async throws -> HTTPResponse {
        guard await coordinator.isReady else {
            throw HTTPProblem(
                InterlockError(.unavailable, "this sidecar is not connected to Redis, or is shutting down; see its log"))
        }
        return try .json(StatusReply(status: "ready"))
    }

    private func exposition(_ call: HTTPCall, _ responder: HTTPResponder) {
        let format = ExpositionFormat(accept: call.header("Accept"))
        metrics.value.request(format, of: call.caller.clientName, hasDisconnected: { responder.hasEnded }) {
            responder(.document($0, mediaType: format.mediaType))
        }
    }
}

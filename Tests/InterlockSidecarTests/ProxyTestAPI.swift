import Interlock
import InterlockCore
import SidecarSettings
import InterlockProcesses

/// A listener in front of a test upstream, which is configured as the service `shop`.
struct ProxyTestAPI {
    let api: HTTPTestAPI
    let upstream: TestUpstream

    var client: HTTPTestClient { api.client }

    /// Runs `body` with a listener in front of an upstream that answers with `handler`.
    /// - Parameters:
    ///   - path: the path after the upstream's host and port.
    ///   - configure: a closure that changes further settings of the service.
    static func with(
        path: String = "/v1", keys: [APIKey] = [], configure: (inout ServiceDefinition) -> Void = { _ in },
        upstream handler: @escaping TestUpstream.Handler, _ body: (ProxyTestAPI) async throws -> Void
    ) async throws {
        try await TestUpstream.with(handler) { upstream in
            var service = ServiceDefinition(
                name: "shop", upstream: UpstreamSettings(url: "http://127.0.0.1:\(upstream.port)\(path)"))
            configure(&service)
            try await HTTPTestAPI.with(keys: keys, services: [service]) { api in
                do {
                    try await body(ProxyTestAPI(api: api, upstream: upstream))
                } catch {
                    let status = await api.coordinator.status
                    print(
                        """
                        The upstream has received \(upstream.received.count) requests on \(upstream.connectionCount) \
                        connections. The sidecar's status: \(status)
                        """)
                    throw error
                }
            }
        }
    }

    /// Waits until a permit has been granted.
    func waitUntilCallBegins() async throws {
        let coordinator = api.coordinator
        try await eventually("a call is in progress") { await coordinator.status.inFlightPermitCount > 0 }
    }

    /// Waits until the outcome of every permit has been reported.
    func waitUntilOutcomesReported() async throws {
        let coordinator = api.coordinator
        try await eventually("every outcome is reported") { await coordinator.status.inFlightPermitCount == 0 }
    }
}

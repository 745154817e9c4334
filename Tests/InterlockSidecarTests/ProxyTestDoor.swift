import Interlock
import InterlockCore
import SidecarSettings
import InterlockProcesses

/// A door in front of an upstream that a test plays, as the service `shop`.
struct ProxyTestDoor {
    let door: HTTPTestDoor
    let upstream: TestUpstream

    var client: HTTPTestClient { door.client }

    /// - Parameters:
    ///   - path: behind the upstream's host and port.
    ///   - configure: further settings of the service.
    static func with(
        path: String = "/v1", keys: [APIKey] = [], configure: (inout ServiceDefinition) -> Void = { _ in },
        upstream handler: @escaping TestUpstream.Handler, _ body: (ProxyTestDoor) async throws -> Void
    ) async throws {
        try await TestUpstream.with(handler) { upstream in
            var service = ServiceDefinition(
                name: "shop", upstream: UpstreamSettings(url: "http://127.0.0.1:\(upstream.port)\(path)"))
            configure(&service)
            try await HTTPTestDoor.with(keys: keys, services: [service]) { door in
                try await body(ProxyTestDoor(door: door, upstream: upstream))
            }
        }
    }

    /// Waits until a permit was given.
    func isBegun() async throws {
        let coordinator = door.coordinator
        try await eventually("a call is under way") { await coordinator.status.permitsUnderWay > 0 }
    }

    /// Waits until every permit's outcome was reported.
    func isSettled() async throws {
        let coordinator = door.coordinator
        try await eventually("every outcome is reported") { await coordinator.status.permitsUnderWay == 0 }
    }
}

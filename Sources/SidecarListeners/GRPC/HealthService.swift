internal import EnvoyMessages
internal import Interlock
internal import NIOCore
internal import SidecarTelemetry
internal import SwiftProtobuf

/// Implements gRPC health checks. The server itself (`""`) serves while Redis is connected, like `/readyz`. The named
/// services serve while the sidecar runs, because they also work without Redis. Confined to the coordinator's event
/// loop.
final class HealthService {
    /// The interval at which watched services are checked.
    private static let checkInterval = TimeAmount.seconds(1)

    private let isReady: () -> Bool
    private let eventLoop: any EventLoop
    private var watches: [(call: GRPCCall, service: String, lastSent: Grpc_Health_V1_HealthCheckResponse.ServingStatus)] = []
    private var check: Scheduled<Void>?

    init(isReady: @escaping () -> Bool, eventLoop: any EventLoop) {
        self.isReady = isReady
        self.eventLoop = eventLoop
    }

    func methods(in metrics: PrometheusRegistry) -> [GRPCMethod] {
        [
            GRPCMethod("/grpc.health.v1.Health/Check", in: metrics) { [self] in check($0, $1) },
            GRPCMethod("/grpc.health.v1.Health/Watch", in: metrics) { [self] in watch($0, $1) },
        ]
    }

    private func check(_ call: GRPCCall, _ message: ByteBuffer) {
        guard let request = call.request(Grpc_Health_V1_HealthCheckRequest.self, message) else { return }
        guard let status = status(of: request.service) else {
            return call.fail(.notFound, "unknown service \"\(request.service)\"")
        }
        call.respond(Grpc_Health_V1_HealthCheckResponse.with { $0.status = status })
    }

    /// Sends the status now and after each change.
    private func watch(_ call: GRPCCall, _ message: ByteBuffer) {
        guard let request = call.request(Grpc_Health_V1_HealthCheckRequest.self, message) else { return }
        let status = status(of: request.service) ?? .serviceUnknown
        call.send(Grpc_Health_V1_HealthCheckResponse.with { $0.status = status })
        watches.append((call, request.service, status))
        call.onCancellation = { [self, unowned call] in removeWatch(call) }
        call.onShutdown = { [self, unowned call] in
            removeWatch(call)
            call.send(Grpc_Health_V1_HealthCheckResponse.with { $0.status = .notServing })
            call.failShuttingDown()
        }
        scheduleCheck()
    }

    private func removeWatch(_ call: GRPCCall) { watches.removeAll { $0.call === call } }

    private func scheduleCheck() {
        guard check == nil, !watches.isEmpty else { return }
        check = eventLoop.assumeIsolated().scheduleTask(in: Self.checkInterval) { [self] in
            check = nil
            watches.removeAll { $0.call.hasEnded }
            var changes: [(call: GRPCCall, status: Grpc_Health_V1_HealthCheckResponse.ServingStatus)] = []
            for index in watches.indices {
                let status = status(of: watches[index].service) ?? .serviceUnknown
                guard status != watches[index].lastSent else { continue }
                watches[index].lastSent = status
                changes.append((watches[index].call, status))
            }
            // The changes are sent last, because `send` may cancel the call of a client that does not read, which
            // changes `watches`.
            for (call, status) in changes { call.send(Grpc_Health_V1_HealthCheckResponse.with { $0.status = status }) }
            scheduleCheck()
        }
    }

    /// Returns the status of a service; `nil` if the service is unknown.
    private func status(of service: String) -> Grpc_Health_V1_HealthCheckResponse.ServingStatus? {
        switch service {
        case "": isReady() ? .serving : .notServing
        case RateLimitService.name, AuthorizationService.name, AccessLogService.name, QuotaService.name,
            "grpc.health.v1.Health":
            .serving
        default: nil
        }
    }
}

extension Grpc_Health_V1_HealthCheckResponse: GRPCMessage {}

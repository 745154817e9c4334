internal import Interlock
internal import InterlockEnvoy
internal import NIOCore
internal import SwiftProtobuf

/// gRPC's health checks: `""` is ready when Redis is connected, as `/readyz` is; the rate limit service serves for as long as the
/// sidecar does, for without Redis it decides by itself. Confined to the coordinator's event loop.
final class HealthService {
    /// How often watched services are looked at.
    private static let pause = TimeAmount.seconds(1)

    private let isReady: () -> Bool
    private let eventLoop: any EventLoop
    private var watches: [(call: GRPCCall, service: String, told: Grpc_Health_V1_HealthCheckResponse.ServingStatus)] = []
    private var look: Scheduled<Void>?

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
            return call.fail(.notFound, "there is no service \"\(request.service)\" here")
        }
        call.answer(Grpc_Health_V1_HealthCheckResponse.with { $0.status = status })
    }

    /// Tells the status now, and whenever it has changed.
    private func watch(_ call: GRPCCall, _ message: ByteBuffer) {
        guard let request = call.request(Grpc_Health_V1_HealthCheckRequest.self, message) else { return }
        let status = status(of: request.service) ?? .serviceUnknown
        call.tell(Grpc_Health_V1_HealthCheckResponse.with { $0.status = status })
        watches.append((call, request.service, status))
        call.whenGivenUp = { [self, unowned call] in forget(call) }
        call.whenGoingDown = { [self, unowned call] in
            forget(call)
            call.tell(Grpc_Health_V1_HealthCheckResponse.with { $0.status = .notServing })
            call.failGoingDown()
        }
        planLook()
    }

    private func forget(_ call: GRPCCall) { watches.removeAll { $0.call === call } }

    private func planLook() {
        guard look == nil, !watches.isEmpty else { return }
        look = eventLoop.assumeIsolated().scheduleTask(in: Self.pause) { [self] in
            look = nil
            watches.removeAll { $0.call.isOver }
            var news: [(call: GRPCCall, status: Grpc_Health_V1_HealthCheckResponse.ServingStatus)] = []
            for place in watches.indices {
                let status = status(of: watches[place].service) ?? .serviceUnknown
                guard status != watches[place].told else { continue }
                watches[place].told = status
                news.append((watches[place].call, status))
            }
            // One that does not listen may be given up by this.
            for (call, status) in news { call.tell(Grpc_Health_V1_HealthCheckResponse.with { $0.status = status }) }
            planLook()
        }
    }

    /// `nil`: there is no such service.
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

extension GRPCCall {
    /// What a message says; `nil`, and the call has failed: it is none.
    func request<Request: Message>(_ type: Request.Type, _ message: ByteBuffer) -> Request? {
        do {
            return try message.withUnsafeReadableBytes { bytes in
                var options = BinaryDecodingOptions()
                options.messageDepthLimit = 20
                options.discardUnknownFields = true
                return try Request(serializedBytes: Array(bytes), options: options)
            }
        } catch {
            fail(.invalidArgument, "the message is no \(Request.protoMessageName)")
            return nil
        }
    }
}

extension ByteBuffer {
    /// How often a message has the last of these fields, within those before it, as far as it is one; nothing is decoded.
    /// <https://protobuf.dev/programming-guides/encoding/>
    func countOfProtobufFields(_ path: UInt64...) -> Int {
        withUnsafeReadableBytes { Self.countOfFields(path[...], in: $0) }
    }

    private static func countOfFields(_ path: ArraySlice<UInt64>, in bytes: UnsafeRawBufferPointer) -> Int {
        var place = 0
        func varint() -> UInt64? {
            var value: UInt64 = 0
            for shift in stride(from: UInt64(0), to: 64, by: 7) {
                guard place < bytes.count else { return nil }
                let byte = bytes[place]
                place += 1
                value |= UInt64(byte & 0x7F) << shift
                if byte < 0x80 { return value }
            }
            return nil
        }
        var count = 0
        while let tag = varint() {
            let isNext = tag >> 3 == path.first
            if isNext, path.count == 1 { count += 1 }
            switch tag & 7 {
            case 0: if varint() == nil { return count }
            case 1: place += 8
            case 2:
                guard let length = varint(), length <= UInt64(bytes.count - place) else { return count }
                let end = place + Int(length)
                if isNext, path.count > 1 {
                    count += countOfFields(path.dropFirst(), in: UnsafeRawBufferPointer(rebasing: bytes[place..<end]))
                }
                place = end
            case 5: place += 4
            default: return count
            }
            guard place <= bytes.count else { return count }
        }
        return count
    }
}

extension Grpc_Health_V1_HealthCheckResponse: GRPCMessage {}
extension GRPCMessage where Self: Message {
    func write(to buffer: inout ByteBuffer) throws { buffer.writeBytes(try serializedBytes() as [UInt8]) }
}

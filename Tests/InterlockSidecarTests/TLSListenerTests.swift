import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import NIOPosix
import NIOSSL
import RedisClient
import Testing

@testable import SidecarListeners
@testable import SidecarSettings

/// Handshakes: the protocols that each listener offers, and clients that begin a handshake but never complete it.
@Suite("Listeners with TLS", .timeLimit(.minutes(1)))
struct TLSListenerTests {
    private static func withCertificate(_ body: (TestCertificate, ListenerCertificate) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        let files = try await TestCertificate.selfSigned(in: folder.path)
        let certificate = try ListenerCertificate(TLSSettings(certificate: files.certificatePath, key: files.keyPath))
        try await body(files, certificate)
    }

    private static func client(offering protocols: [String]) throws -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.certificateVerification = .none
        configuration.applicationProtocols = protocols
        return try NIOSSLContext(configuration: configuration)
    }

    /// Returns the protocol that the handshake negotiated.
    private static func negotiatedProtocol(port: Int, offering protocols: [String]) async throws -> String? {
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let done = loop.makePromise(of: String?.self)
        let tls = try client(offering: protocols)
        let channel = try await ClientBootstrap(group: loop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandlers(
                        [NIOSSLClientHandler(context: tls, serverHostname: nil), HandshakeObserver(done)])
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        let result = try await done.futureResult.get()
        try? await channel.close()
        return result
    }

    private final class HandshakeObserver: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let done: EventLoopPromise<String?>

        init(_ done: EventLoopPromise<String?>) { self.done = done }

        func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
            // The tests do not depend on NIOTLS, which defines this event.
            let text = "\(event)"
            guard text.hasPrefix("handshakeCompleted") else { return }
            done.succeed(text.firstMatch(of: /"([^"]*)"/).map { String($0.output.1) })
        }

        func channelInactive(context: ChannelHandlerContext) { done.fail(ChannelError.ioOnClosedChannel) }
    }

    @Test("The HTTP API negotiates HTTP/2 and HTTP/1.1, and answers over either")
    func httpAPINegotiatesHTTP2AndHTTP1() async throws {
        try await Self.withCertificate { _, certificate in
            try await HTTPTestAPI.with(certificate: certificate) { api in
                let port = api.client.port
                #expect(try await Self.negotiatedProtocol(port: port, offering: ["h2", "http/1.1"]) == "h2")
                #expect(try await Self.negotiatedProtocol(port: port, offering: ["http/1.1"]) == "http/1.1")
                #expect(try await Self.negotiatedProtocol(port: port, offering: []) == nil)
                try await HTTP2TestClient.with(port: port, tls: try Self.client(offering: ["h2"])) { client in
                    try await client.send(HTTP2TestClient.head("GET", "/healthz", stream: 1))
                    #expect(try await client.answer(1).status == "200")
                }
            }
        }
    }

    @Test("The RESP listener negotiates no protocol, and the gRPC listener negotiates only HTTP/2")
    func respAndGRPC() async throws {
        try await Self.withCertificate { files, certificate in
            try await RESPTestAPI.with(tls: files) { api async throws in
                #expect(try await Self.negotiatedProtocol(port: api.port, offering: ["http/1.1"]) == nil)
            }
            try await GRPCTestAPI.with(certificate: certificate) { api async throws in
                #expect(try await Self.negotiatedProtocol(port: api.port, offering: ["h2", "http/1.1"]) == "h2")
            }
        }
    }

    @Test(
        "A gRPC client that stalls in its handshake or sends no request is closed at its deadline",
        arguments: ["", "\u{16}\u{03}\u{01}\u{02}"])
    func silent(bytes: String) async throws {
        try await Self.withCertificate { _, certificate in
            try await GRPCTestAPI.with(certificate: certificate, firstRequestTimeout: .milliseconds(300)) { api in
                let start = ContinuousClock.now
                let response = try await RawConnection.exchange(port: api.port, bytes)
                #expect(response.isEmpty)
                #expect(ContinuousClock.now - start < .seconds(10))
            }
        }
    }

    @Test(
        "Silent clients do not block a full listener, because the oldest one is evicted",
        arguments: ["grpc", "resp", "http"])
    func fullListener(listener: String) async throws {
        let keys = [HTTPTestAPI.web]
        try await Self.withCertificate { files, certificate in
            func fill(_ port: Int) async throws -> [any Channel] {
                var silent: [any Channel] = []
                for _ in 0..<30 {
                    silent.append(
                        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                            .connect(host: "127.0.0.1", port: port).get())
                }
                // Younger connections are spared, because their clients may be about to send a request.
                try await Task.sleep(for: .nanoseconds(2 * UnidentifiedConnections<AnyObject>.graceNanoseconds))
                return silent
            }
            let tls = try Self.client(offering: ["h2"])
            switch listener {
            case "grpc":
                try await GRPCTestAPI.with(keys: keys, certificate: certificate, maximumConnections: 10) { api in
                    let silent = try await fill(api.port)
                    try await HTTP2TestClient.with(port: api.port, tls: tls) { client in
                        try await client.send(
                            GRPCTestAPI.call("/grpc.health.v1.Health/Check", key: "web-secret", stream: 1))
                        #expect(try await client.answer(1).trailers.contains { $0 == ("grpc-status", "0") })
                    }
                    for channel in silent { try? await channel.close() }
                }
            case "resp":
                try await RESPTestAPI.with(keys: keys, tls: files, maximumConnections: 10) { api in
                    let silent = try await fill(api.port)
                    #expect(try await Self.negotiatedProtocol(port: api.port, offering: []) == nil)
                    // The client that has authenticated keeps its slot.
                    #expect(try await api.send("PING").text == "PONG")
                    for channel in silent { try? await channel.close() }
                }
            default:
                try await HTTPTestAPI.with(keys: keys, maximumConnections: 10, certificate: certificate) { api in
                    let silent = try await fill(api.client.port)
                    try await HTTP2TestClient.with(port: api.client.port, tls: tls) { client in
                        try await client.send(
                            HTTP2TestClient.head("GET", "/v1/services", [("x-api-key", "web-secret")], stream: 1))
                        #expect(try await client.answer(1).status == "200")
                    }
                    for channel in silent { try? await channel.close() }
                }
            }
        }
    }

    @Test("The oldest unfinished handshakes beyond the limit are closed")
    func oldestUnfinishedHandshakesBeyondLimitAreClosed() async throws {
        try await Self.withCertificate { _, certificate in
            try await GRPCTestAPI.with(certificate: certificate) { api in
                var silent: [any Channel] = []
                for _ in 0..<400 {
                    silent.append(
                        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                            .connect(host: "127.0.0.1", port: api.port).get())
                }
                let all = silent
                try await eventually(within: .seconds(8), "the oldest connections are closed") {
                    all.count(where: \.isActive) <= 256
                }
                let areNewestKept = all.suffix(100).allSatisfy(\.isActive)
                #expect(areNewestKept)
                for channel in all { try? await channel.close() }
            }
        }
    }
}

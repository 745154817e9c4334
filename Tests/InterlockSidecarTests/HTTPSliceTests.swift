import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import NIOPosix
import Testing

/// The listeners' clock advances by a millisecond each time it is read, so each slice ends as soon as it begins.
@Suite("Requests that wait for a slice", .timeLimit(.minutes(1)))
struct HTTPSliceTests {
    private static let get = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"

    private static func with(_ body: (HTTPTestAPI) async throws -> Void) async throws {
        try await HTTPTestAPI.with(
            clock: {
                var nowNanoseconds: Int64 = 0
                return {
                    nowNanoseconds += 1_000_000
                    return nowNanoseconds
                }
            }, body)
    }

    private static func count(_ status: Int, in responses: String) -> Int {
        responses.ranges(of: "HTTP/1.1 \(status) ").count
    }

    /// Sends `bytes`, closes the sending side, and reads until the other side closes.
    private static func halfClosed(port: Int, _ bytes: ByteBuffer) async throws -> String {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.allowRemoteHalfClosure, value: true)
            .connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                        wrappingChannelSynchronously: channel, configuration: .init(isOutboundHalfClosureEnabled: true))
                }
            }
        return try await channel.executeThenClose { inbound, outbound in
            try await outbound.write(bytes)
            outbound.finish()
            var received = ""
            for try await part in inbound { received += String(buffer: part) }
            return received
        }
    }

    @Test("Each slice runs at least one request, even if the tick's time is used up")
    func eachSliceRunsAtLeastOneRequest() async throws {
        try await Self.with { api in
            let responses = try await RawConnection.exchange(
                port: api.client.port, ByteBuffer(string: String(repeating: Self.get, count: 5))
            ) {
                Self.count(200, in: $0) == 5
            }
            #expect(Self.count(200, in: responses) == 5)
        }
    }

    @Test("Requests are answered after their client has closed its sending side")
    func halfClose() async throws {
        try await Self.with { api in
            let responses = try await Self.halfClosed(
                port: api.client.port, ByteBuffer(string: String(repeating: Self.get, count: 20)))
            #expect(Self.count(200, in: responses) == 20)
        }
    }

    @Test("Requests before a malformed one are answered, and then it is refused")
    func requestsBeforeMalformedOneAreAnswered() async throws {
        try await Self.with { api in
            let requests = String(repeating: Self.get, count: 5) + "nonsense\r\n\r\n"
            let responses = try await RawConnection.exchange(port: api.client.port, requests)
            #expect(Self.count(200, in: responses) == 5 && Self.count(400, in: responses) == 1, "\(responses)")
        }
    }

    @Test("Requests on streams are executed even if their client has just disconnected")
    func streamsOfClosedClients() async throws {
        try await Self.with { api in
            let lease = try #require(
                try await api.coordinator.acquireLock(
                    try LockRequest(name: ResourceName("orders"), ttlMilliseconds: 60_000)))
            var bytes = ByteBuffer(string: HTTP2TestClient.preface)
            HTTP2TestClient.Frame(kind: .settings).write(into: &bytes)
            for stream in stride(from: UInt32(1), to: 21, by: 2) {
                HTTP2TestClient.head("GET", "/healthz", stream: stream).write(into: &bytes)
            }
            let release = HTTP2TestClient.head("DELETE", "/v1/locks/orders", [("lease-token", lease.token)], stream: 21)
            release.write(into: &bytes)
            _ = try await Self.halfClosed(port: api.client.port, bytes)
            try await eventually("the lock is released") {
                try await api.coordinator.inspectLock(ResourceName("orders")) == nil
            }
        }
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import NIOPosix
import NIOConcurrencyHelpers
import Testing

@Suite("Proxy: streaming bodies")
struct ProxyStreamTests {
    /// Returns bytes that differ from block to block.
    private static func pattern(_ count: Int) -> ByteBuffer {
        var block = ByteBuffer()
        var state: UInt64 = 0x9E37_79B9_7F4A_7C15
        for _ in 0..<512 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            block.writeInteger(state)
        }
        var bytes = ByteBuffer()
        bytes.reserveCapacity(count)
        while bytes.readableBytes < count {
            block.setInteger(bytes.readableBytes, at: block.readerIndex)
            bytes.writeImmutableBuffer(block)
        }
        return bytes
    }

    private static func chunk(_ bytes: ByteBuffer) -> ByteBuffer {
        var chunk = ByteBuffer(string: String(bytes.readableBytes, radix: 16) + "\r\n")
        chunk.writeImmutableBuffer(bytes)
        chunk.writeString("\r\n")
        return chunk
    }

    private static func head(_ method: String, _ fields: [String: String], _ client: HTTPTestClient) -> String {
        HTTPTestClient.request(method, "/proxy/shop/a", nil, headers: fields, port: client.port, closing: true)
    }

    /// Echoes the body while it arrives.
    private static let echo: TestUpstream.Handler = { call in
        if let length = call.values("content-length").first.flatMap({ Int($0) }) {
            try await call.send("HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n")
            var sentByteCount = 0
            while sentByteCount < length, let nextBytes = try await call.nextBytes() {
                sentByteCount += nextBytes.readableBytes
                try await call.send(nextBytes)
            }
        } else {
            #expect(call.values("transfer-encoding") == ["chunked"])
            try await call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            var last = ""
            while !last.hasSuffix("0\r\n\r\n"), let nextBytes = try await call.nextBytes() {
                last = String(
                    (last + String(decoding: nextBytes.readableBytesView.suffix(16), as: Unicode.ASCII.self)).suffix(16))
                try await call.send(nextBytes)
            }
        }
    }

    @Test("Large bodies flow in both directions concurrently without loss")
    func large() async throws {
        let bytes = Self.pattern(8 * 1024 * 1024)
        try await ProxyTestAPI.with(upstream: Self.echo) { proxy in
            let response = try await ProxyTestClient.exchange(
                port: proxy.client.port, head: Self.head("POST", ["Content-Length": "\(bytes.readableBytes)"], proxy.client),
                body: bytes)
            #expect(response.isComplete)
            #expect(response.body == bytes)
            try await proxy.waitUntilOutcomesReported()
        }
    }

    /// A client behavior that makes its own call fail.
    enum ClientFault: CaseIterable {
        case stalledUpload, brokenChunk, slowReader, slowUpload
    }

    @Test("Errors caused by a client are not failures of the service", arguments: ClientFault.allCases)
    func clientFaults(fault: ClientFault) async throws {
        let large = Self.pattern(8 * 1024 * 1024)
        try await ProxyTestAPI.with(
            configure: { service in
                // The timeout lets a busy machine connect; a failure to connect would count against the service.
                service.upstream?.totalTimeout = fault == .slowUpload ? .seconds(20) : .seconds(2)
                service.breaker = BreakerSettings(
                    slowCall: .milliseconds(300), slowRate: 0.5, minimumCalls: 3, consecutiveFailures: 3,
                    openFor: .seconds(30) ... .seconds(30))
            },
            upstream: { call in
                guard fault == .slowReader else {
                    // The upstream reads the body and answers when it is complete.
                    var rest = 0
                    while rest < 5, let nextBytes = try await call.nextBytes() { rest += nextBytes.readableBytes }
                    return try await call.answer("200 OK")
                }
                try await call.send("HTTP/1.1 200 OK\r\nContent-Length: \(large.readableBytes)\r\n\r\n")
                try await call.send(large)
            }
        ) { proxy in
            for _ in 0..<4 {
                let port = proxy.client.port
                switch fault {
                case .stalledUpload:
                    _ = try await RawConnection.exchange(
                        port: port, Self.head("POST", ["Content-Length": "1000"], proxy.client) + "abc")
                case .brokenChunk:
                    _ = try await RawConnection.exchange(
                        port: port,
                        Self.head("POST", ["Transfer-Encoding": "chunked"], proxy.client) + "5\r\nabcde\r\nnonsense\r\n")
                case .slowUpload:
                    let channel = try await Self.connect(port: port)
                    try await channel.writeAndFlush(
                        ByteBuffer(string: Self.head("POST", ["Content-Length": "5"], proxy.client) + "ab")
                    ).get()
                    // The delay exceeds `slowCall`, but the client causes it.
                    try await Task.sleep(for: .milliseconds(400))
                    try await channel.writeAndFlush(ByteBuffer(string: "cde")).get()
                    try await channel.closeFuture.get()
                case .slowReader:
                    let channel = try await Self.connect(port: port)
                    try await channel.setOption(.autoRead, value: false).get()
                    try await channel.writeAndFlush(ByteBuffer(string: Self.head("GET", [:], proxy.client))).get()
                    try await proxy.waitUntilCallBegins()
                    try await proxy.waitUntilOutcomesReported()
                    try await channel.close()
                }
                try await proxy.waitUntilOutcomesReported()
            }
            let breaker = try await proxy.api.coordinator.breaker(service: "shop")
            #expect(breaker.state == .closed)
            #expect(breaker.fleet.trips == 0)
        }
    }

    /// Returns a connection on which nothing is read automatically.
    private static func connect(port: Int) async throws -> any Channel {
        try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton).connect(host: "127.0.0.1", port: port).get()
    }

    @Test("Chunked bodies stay chunked")
    func chunkedBodiesStayChunked() async throws {
        let bytes = Self.pattern(512 * 1024)
        var body = ByteBuffer()
        var rest = bytes
        while let slice = rest.readSlice(length: min(10_000, rest.readableBytes)), slice.readableBytes > 0 {
            body.writeImmutableBuffer(Self.chunk(slice))
        }
        body.writeString("0\r\n\r\n")
        try await ProxyTestAPI.with(upstream: Self.echo) { [body] proxy in
            let response = try await ProxyTestClient.exchange(
                port: proxy.client.port, head: Self.head("PUT", ["Transfer-Encoding": "chunked"], proxy.client), body: body)
            #expect(response.isComplete)
            #expect(response.body == bytes)
        }
    }

    @Test("An upstream is not read faster than the client reads")
    func backPressure() async throws {
        let megabytes = 256
        let sentByteCount = NIOLockedValueBox(0)
        let megabyte = Self.pattern(1024 * 1024)
        let upstream: TestUpstream.Handler = { call in
            try await call.send("HTTP/1.1 200 OK\r\nContent-Length: \(megabytes * 1024 * 1024)\r\n\r\n")
            for _ in 0..<megabytes {
                try await call.send(megabyte)
                sentByteCount.withLockedValue { $0 += 1 }
            }
        }
        try await ProxyTestAPI.with(upstream: upstream) { proxy in
            let head = Self.head("GET", [:], proxy.client)
            try await proxy.client.whileConnected(sending: head) {
                var samples = (count: -1, times: 0)
                try await eventually("the upstream is held back") {
                    let count = sentByteCount.withLockedValue { $0 }
                    samples = (count, count == samples.count && count > 0 ? samples.times + 1 : 0)
                    return samples.times > 150
                }
                #expect(samples.count < megabytes / 2)
            }
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("A client that does not read is disconnected at the call's timeout, and its permit is returned")
    func stalledClient() async throws {
        let megabyte = Self.pattern(1024 * 1024)
        let upstream: TestUpstream.Handler = { call in
            try await call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while true { try await call.send(Self.chunk(megabyte)) }
        }
        let shortTimeout: (inout ServiceDefinition) -> Void = { $0.upstream?.totalTimeout = .milliseconds(500) }
        try await ProxyTestAPI.with(configure: shortTimeout, upstream: upstream) { proxy in
            let head = Self.head("GET", [:], proxy.client)
            try await proxy.client.whileConnected(sending: head) {
                try await eventually("the upstream is called") { !proxy.upstream.received.isEmpty }
                try await proxy.waitUntilOutcomesReported()
            }
        }
    }

    @Test("The upstream call is cancelled when the client disconnects before the response")
    func clientLeaves() async throws {
        let isClosed = NIOLockedValueBox(false)
        let upstream: TestUpstream.Handler = { call in
            while try await call.nextBytes() != nil {}
            isClosed.withLockedValue { $0 = true }
            throw TestUpstream.Close()
        }
        let openAfterOneFailure: (inout ServiceDefinition) -> Void = { $0.breaker.minimumCalls = 1 }
        try await ProxyTestAPI.with(configure: openAfterOneFailure, upstream: upstream) { proxy in
            let upstream = proxy.upstream
            try await proxy.client.whileConnected(sending: Self.head("GET", [:], proxy.client)) {
                try await eventually("the upstream is called") { !upstream.received.isEmpty }
            }
            try await eventually("the upstream connection is closed") { isClosed.withLockedValue { $0 } }
            try await proxy.waitUntilOutcomesReported()
            // A disconnected client says nothing about the service.
            let state = try await proxy.api.coordinator.breaker(service: "shop").state
            #expect(state == .closed)
        }
    }

    @Test("The upstream call is cancelled when the client disconnects during the response")
    func disconnectCancelsUpstreamCall() async throws {
        let isClosed = NIOLockedValueBox(false)
        let megabyte = Self.pattern(1024 * 1024)
        let upstream: TestUpstream.Handler = { call in
            defer { isClosed.withLockedValue { $0 = true } }
            try await call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while true { try await call.send(Self.chunk(megabyte)) }
        }
        try await ProxyTestAPI.with(upstream: upstream) { proxy in
            try await proxy.client.follow("GET", "/proxy/shop/a") { $0.utf8.count > 1000 }
            try await eventually("the upstream connection is closed") { isClosed.withLockedValue { $0 } }
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test(
        "A truncated response is visibly truncated, and is a failure",
        arguments: ["Content-Length: 100\r\n\r\n0123456789", "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n"])
    func truncatedResponse(answer: String) async throws {
        let isAwaited = NIOLockedValueBox(true)
        let upstream: TestUpstream.Handler = { call in
            try await call.send("HTTP/1.1 200 OK\r\n\(answer)")
            try await eventually("the client has seen the beginning") { !isAwaited.withLockedValue { $0 } }
            throw TestUpstream.Close()
        }
        let openAfterOneFailure: (inout ServiceDefinition) -> Void = { $0.breaker.minimumCalls = 1 }
        try await ProxyTestAPI.with(configure: openAfterOneFailure, upstream: upstream) { proxy in
            let response = try await proxy.client.exchange(Self.head("GET", [:], proxy.client)) { received in
                if received.contains("0123456789") { isAwaited.withLockedValue { $0 = false } }
            }
            #expect(response.hasPrefix("HTTP/1.1 200 OK"))
            #expect(!response.hasSuffix("0\r\n\r\n"))
            #expect(response.contains("0123456789"))
            let coordinator = proxy.api.coordinator
            try await eventually("the breaker trips") { try await coordinator.breaker(service: "shop").state == .open }
        }
    }

    @Test("An active response is not interrupted when its service gets another URL")
    func activeResponseIsNotInterrupted() async throws {
        let isReloaded = NIOLockedValueBox(false)
        let upstream: TestUpstream.Handler = { call in
            if call.request.hasSuffix("/new") { return try await call.answer("200 OK", [], "new") }
            try await call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            try await eventually("the service has another URL") { isReloaded.withLockedValue { $0 } }
            // These parts would reveal a connection that is being closed.
            for _ in 0..<100 { try await call.send("1\r\n.\r\n") }
            try await call.send("5\r\nworld\r\n0\r\n\r\n")
        }
        try await ProxyTestAPI.with(upstream: upstream) { proxy in
            let client = proxy.client
            let coordinator = proxy.api.coordinator
            let moved = UpstreamSettings(url: "http://127.0.0.1:\(proxy.upstream.port)/v2")
            let response = try await client.exchange(Self.head("GET", [:], client)) { received in
                guard received.contains("hello"), !isReloaded.withLockedValue({ $0 }) else { return }
                try await coordinator.reload(services: [ServiceDefinition(name: "shop", upstream: moved)])
                let other = try await client.send("GET", "/proxy/shop/new")
                #expect(other.body == "new")
                isReloaded.withLockedValue { $0 = true }
            }
            #expect(response.contains("world"))
            #expect(response.hasSuffix("0\r\n\r\n"))
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("A response sent before the body is read arrives intact")
    func earlyAnswer() async throws {
        let bytes = Self.pattern(16 * 1024 * 1024)
        let upstream: TestUpstream.Handler = { call in
            try await call.send("HTTP/1.1 413 Content Too Large\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nlarge\r\n0\r\n\r\n")
            while try await call.nextBytes() != nil {}
            throw TestUpstream.Close()
        }
        try await ProxyTestAPI.with(upstream: upstream) { proxy in
            let response = try await ProxyTestClient.exchange(
                port: proxy.client.port, head: Self.head("POST", ["Content-Length": "\(bytes.readableBytes)"], proxy.client),
                body: bytes)
            #expect(response.head.hasPrefix("HTTP/1.1 413"))
            #expect(response.isComplete)
            #expect(String(buffer: response.body) == "large")
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("A body that its client truncates is visibly truncated for the upstream")
    func truncatedUpload() async throws {
        let received = NIOLockedValueBox("")
        let isClosed = NIOLockedValueBox(false)
        let upstream: TestUpstream.Handler = { call in
            defer { isClosed.withLockedValue { $0 = true } }
            while let nextBytes = try await call.nextBytes() { received.withLockedValue { $0 += String(buffer: nextBytes) } }
            throw TestUpstream.Close()
        }
        try await ProxyTestAPI.with(upstream: upstream) { proxy in
            let head = Self.head("POST", ["Transfer-Encoding": "chunked"], proxy.client)
            try await proxy.client.whileConnected(sending: head + "5\r\nhello\r\n") {
                try await eventually("the beginning has arrived") { received.withLockedValue { $0.contains("hello") } }
            }
            try await eventually("the upstream connection is closed") { isClosed.withLockedValue { $0 } }
            #expect(!received.withLockedValue { $0 }.contains("0\r\n\r\n"))
            try await proxy.waitUntilOutcomesReported()
        }
    }

    @Test("One connection carries several bodies in turn")
    func severalBodies() async throws {
        try await ProxyTestAPI.with(upstream: Self.echo) { proxy in
            let port = proxy.client.port
            let requests = (0..<4).map { number in
                HTTPTestClient.request("POST", "/proxy/shop/a", "body \(number)", headers: [:], port: port, closing: number == 3)
            }
            let responses = try await proxy.client.exchange(requests.joined())
            for number in 0..<4 { #expect(responses.contains("\r\n\r\nbody \(number)")) }
        }
    }

    @Test("A client gets 100 Continue when its call is admitted, and not when it is refused")
    func expectContinue() async throws {
        let limit: (inout ServiceDefinition) -> Void = {
            $0.limits = [LimitDefinition(name: "minute", limit: 1, window: .seconds(60))]
        }
        try await ProxyTestAPI.with(configure: limit, upstream: Self.echo) { proxy in
            let fields = ["Expect": "100-continue"]
            let port = proxy.client.port
            let first = HTTPTestClient.request("POST", "/proxy/shop/a", "hello", headers: fields, port: port, closing: true)
            let response = try await proxy.client.exchange(first)
            #expect(response.hasPrefix("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200"))
            #expect(try HTTPTestClient.parse(response).body == "hello")
            #expect(proxy.upstream.received.allSatisfy { !$0.lowercased().contains("expect:") })
            let refusal = try await proxy.client.exchange(first)
            #expect(refusal.hasPrefix("HTTP/1.1 429"))
            #expect(try HTTPTestClient.parse(refusal).headers["connection"] == "close")
        }
    }
}

extension HTTPTestClient {
    /// Sends bytes, reads nothing, and closes the connection once `body` returns.
    func whileConnected(sending bytes: String, _ body: () async throws -> Void) async throws {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .channelOption(.autoRead, value: false)
            .connect(host: "127.0.0.1", port: port).get()
        try await channel.writeAndFlush(ByteBuffer(string: bytes))
        do {
            try await body()
        } catch {
            try? await channel.close()
            throw error
        }
        try await channel.close()
    }
}

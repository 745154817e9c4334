import InterlockCore
import NIOConcurrencyHelpers
import NIOCore
import Testing

/// Bytes above 127 in field values are opaque (RFC 9110, section 5.5) and must be forwarded unchanged.
@Suite("Proxy: bytes of fields", .timeLimit(.minutes(1)))
struct ProxyBytesTests {
    /// Values in Latin-1, invalid, truncated and multibyte UTF-8, and with a replacement character.
    static let values: [[UInt8]] = [
        Array("caf".utf8) + [0xE9], [0x80, 0xFF, 0xC0, 0xAF], [0x61, 0xE2, 0x82], Array("é€😀\u{FFFD}".utf8),
        [0xF4, 0x8F, 0xBF, 0xBF, 0xF4, 0x8F, 0xBE, 0x80, 0xE9], [0xEF, 0xBF, 0xBD, 0xE9, 0xED, 0xA0, 0x80],
    ]

    private static func lines(_ name: String) -> [UInt8] {
        values.enumerated().flatMap { Array("\(name)-\($0): ".utf8) + $1 + Array("\r\n".utf8) }
    }

    private static func exchange(port: Int, _ parts: [[UInt8]]) async throws -> [UInt8] {
        let channel = try await RawConnection.connect(to: port)
        return try await channel.executeThenClose { inbound, outbound in
            for part in parts { try await outbound.write(ByteBuffer(bytes: part)) }
            var received: [UInt8] = []
            for try await part in inbound { received += Array(part.readableBytesView) }
            return received
        }
    }

    private static func contains(_ bytes: [UInt8], _ field: String, _ value: [UInt8]) -> Bool {
        bytes.firstRange(of: Array("\(field): ".utf8) + value + Array("\r\n".utf8)) != nil
    }

    @Test("Bytes pass unchanged to an HTTP/1.1 upstream and back, in heads and in trailers", arguments: [false, true])
    func bytesPassUnchangedOverHTTP1(inPieces: Bool) async throws {
        let head = Array("POST /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n".utf8)
        let request = head + Self.lines("X-Head") + Array("Connection: close\r\n\r\n5\r\nh\u{c}llo\r\n0\r\n".utf8)
        let trailers = Self.lines("X-Tail") + Array("\r\n".utf8)
        let rawRequest = NIOLockedValueBox<[UInt8]>([])
        try await ProxyTestAPI.with(upstream: { call in
            var received = call.rawHead
            while received.suffix(4) != Array("\r\n\r\n".utf8) || received.firstRange(of: Array("\r\n0\r\n".utf8)) == nil,
                let nextBytes = try await call.nextBytes()
            {
                received += Array(nextBytes.readableBytesView)
            }
            rawRequest.withLockedValue { [received] in $0 = received }
            let status = Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n".utf8) + Self.lines("X-Back")
            let body = Array("\r\n2\r\n".utf8) + [0xE9, 0xFF] + Array("\r\n0\r\n".utf8)
            try await call.send(ByteBuffer(bytes: status + body + Self.lines("X-End") + Array("\r\n".utf8)))
        }) { proxy in
            // Sent in pieces, a field spans several reads.
            let whole = request + trailers
            let parts = inPieces ? [Array(whole.prefix(120)), Array(whole.dropFirst(120))] : [whole]
            let response = try await Self.exchange(port: proxy.client.port, parts)
            let requestBytes = rawRequest.withLockedValue { $0 }
            for (number, value) in Self.values.enumerated() {
                #expect(Self.contains(requestBytes, "X-Head-\(number)", value), "X-Head-\(number): \(value)")
                #expect(Self.contains(requestBytes, "X-Tail-\(number)", value), "X-Tail-\(number): \(value)")
                #expect(Self.contains(response, "X-Back-\(number)", value), "X-Back-\(number): \(value)")
                #expect(Self.contains(response, "X-End-\(number)", value), "X-End-\(number): \(value)")
            }
            // The proxy leaves bodies unchanged.
            #expect(response.firstRange(of: Array("2\r\n".utf8) + [0xE9, 0xFF] + Array("\r\n".utf8)) != nil)
        }
    }

    /// Returns a field `x-head` in HPACK encoding (RFC 7541, section 6.2).
    private static func literal(isIndexed: Bool, _ value: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = [isIndexed ? 0x40 : 0, 6]
        bytes += Array("x-head".utf8)
        bytes.append(UInt8(value.count))
        return bytes + value
    }

    @Test("UTF-8 passes unchanged over HTTP/2, but other bytes do not, because HPACK decodes to text")
    func utf8PassesUnchangedOverHTTP2() async throws {
        let rawRequest = NIOLockedValueBox<[UInt8]>([])
        try await ProxyTestAPI.with(upstream: { call in
            rawRequest.withLockedValue { $0 = call.rawHead }
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Text: é😀\r\nX-Back: caf"
            try await call.send(ByteBuffer(bytes: Array(head.utf8) + [0xE9] + Array("\r\n\r\n".utf8)))
        }) { proxy in
            try await HTTP2TestClient.with(port: proxy.client.port) { client in
                var head = HTTP2TestClient.head("GET", "/proxy/shop/a", [("x-text", "é😀")], stream: 1)
                head.payload.writeBytes(Self.literal(isIndexed: false, Array("caf".utf8) + [0xE9, 0xFF]))
                try await client.send(head)
                let response = try await client.answer(1)
                #expect(response.value("x-text") == "é😀")
                #expect(response.value("x-back") == "café")
            }
            let requestBytes = rawRequest.withLockedValue { $0 }
            #expect(Self.contains(requestBytes, "x-text", Array("é😀".utf8)))
            #expect(Self.contains(requestBytes, "x-head", Array("caf\u{FFFD}\u{FFFD}".utf8)))
        }
    }

    @Test("A client whose HPACK table the library overestimates loses its HTTP/2 connection")
    func http2Table() async throws {
        try await ProxyTestAPI.with(upstream: { try await $0.answer("200 OK") }) { proxy in
            try await HTTP2TestClient.with(port: proxy.client.port) { client in
                var first = HTTP2TestClient.head("GET", "/proxy/shop/a", stream: 1)
                // The client's table has room for 29 of these indexed fields, the library's for 12.
                let value = [UInt8](repeating: 0xE9, count: 100)
                for _ in 0..<20 { first.payload.writeBytes(Self.literal(isIndexed: true, value)) }
                try await client.send(first)
                #expect(try await client.answer(1).status == "200")
                var second = HTTP2TestClient.head("GET", "/proxy/shop/a", stream: 3)
                second.payload.writeBytes([0x80 + 62 + 19])
                try await client.send(second)
                #expect(try await client.end() == 9)
            }
        }
    }

    @Test("A UTF-8 subject is the same through the proxy as elsewhere")
    func utf8SubjectIsTheSameThroughProxy() async throws {
        let perSubject: (inout ServiceDefinition) -> Void = {
            $0.limits = [LimitDefinition(name: "w", limit: 1, window: .seconds(60), isPerSubject: true)]
        }
        try await ProxyTestAPI.with(configure: perSubject, upstream: { try await $0.answer("200 OK") }) { proxy in
            try await proxy.api.expect(200, "GET", "/v1/check/shop?subject=m%C3%BCller")
            try await proxy.api.expect(429, "GET", "/proxy/shop/a", headers: ["Interlock-Subject": "müller"])
        }
    }
}

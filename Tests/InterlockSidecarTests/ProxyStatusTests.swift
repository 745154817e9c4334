import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import Testing

@testable import SidecarListeners

@Suite("Proxy: unusual response heads", .timeLimit(.minutes(2)))
struct ProxyStatusTests {
    private static func openAfterOneFailure(_ service: inout ServiceDefinition) {
        service.upstream?.retries.attempts = 0
        service.upstream?.totalTimeout = .seconds(10)
        service.breaker = BreakerSettings(minimumCalls: 1)
    }

    private static let get = "GET /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    @Test("A status below 100 fails the call immediately, as a failure of the service", arguments: ["099", "000", "042"])
    func noStatus(status: String) async throws {
        try await ProxyTestAPI.with(
            configure: Self.openAfterOneFailure, upstream: { try await $0.answer("\(status) Odd", [], "x") }
        ) {
            proxy in
            try await proxy.api.expect(502, "GET", "/proxy/shop/a")
            let coordinator = proxy.api.coordinator
            try await eventually("the failure is counted") { try await coordinator.breaker(service: "shop").state == .open }
        }
    }

    @Test(
        "A response in an unknown transfer coding fails the call",
        arguments: ["gzip, chunked", "gzip,\tchunked", "gzip\r\nTransfer-Encoding: chunked", "Gzip, Chunked", "deflate"])
    func codedAnswer(coding: String) async throws {
        try await ProxyTestAPI.with(
            configure: Self.openAfterOneFailure,
            upstream: { call in
                try await call.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: \(coding)\r\n\r\n1\r\nx\r\n0\r\n\r\n")
            }
        ) { proxy in
            let failure = try await proxy.client.send("GET", "/proxy/shop/a")
            #expect(failure.status == 502)
            #expect(failure.text("cause") == "broken")
        }
    }

    @Test(
        "A request in an unknown transfer coding is refused with 501 and reaches no upstream",
        arguments: ["gzip, chunked", "gzip,\tchunked", "gzip\r\nTransfer-Encoding: chunked", "GZIP, Chunked"])
    func codedRequest(coding: String) async throws {
        try await ProxyTestAPI.with(upstream: { try await $0.answer("200 OK") }) { proxy in
            for path in ["/proxy/shop/a", "/v1/locks/a"] {
                let response = try await RawConnection.exchange(
                    port: proxy.client.port,
                    "POST \(path) HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: \(coding)\r\n\r\n1\r\nx\r\n0\r\n\r\n")
                #expect(response.hasPrefix("HTTP/1.1 501 "), "\(response)")
            }
            #expect(proxy.upstream.received == [])
        }
    }

    @Test("An informational response reaches the client before the final one")
    func earlyHints() async throws {
        try await ProxyTestAPI.with(upstream: { call in
            try await call.send("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
            try await call.answer("200 OK", [], "whole")
        }) { proxy in
            let response = try await RawConnection.exchange(port: proxy.client.port, Self.get)
            #expect(response.hasPrefix("HTTP/1.1 103 "), "\(response)")
            #expect(response.contains("Link: </x>\r\n") && response.contains("HTTP/1.1 200 "), "\(response)")
            #expect(response.hasSuffix("whole"))
        }
    }

    @Test("A response without a Date gets one, and one with a Date keeps it")
    func date() async throws {
        try await ProxyTestAPI.with(upstream: { call in
            try await call.answer("200 OK", call.request.hasSuffix("/dated") ? ["Date: Sun, 06 Nov 1994 08:49:37 GMT"] : [])
        }) { proxy in
            let undated = try await proxy.client.send("GET", "/proxy/shop/a").headers["date"]
            #expect(undated.flatMap { HTTPDate.second($0) } != nil)
            #expect(try await proxy.client.send("GET", "/proxy/shop/dated").headers["date"] == "Sun, 06 Nov 1994 08:49:37 GMT")
        }
    }

    @Test("Space around a field's value is not part of it", arguments: [" ", "\t", " \t "])
    func space(space: String) async throws {
        try await ProxyTestAPI.with(
            configure: { $0.breaker = BreakerSettings(openFor: .seconds(30) ... .seconds(30)) },
            upstream: { call in
                #expect(call.values("x-a") == ["b"])
                #expect(call.values("x-hop") == [])
                try await call.send("HTTP/1.1 503 Sorry\r\nRetry-After:\(space)9\(space)\r\nContent-Length: 0\r\n\r\n")
            }
        ) { proxy in
            let fields = "Host:\(space)localhost\(space)\r\nX-A:\(space)b\(space)\r\nConnection: close,\(space)X-Hop\r\nX-Hop: 1"
            let response = try await RawConnection.exchange(
                port: proxy.client.port, "GET /proxy/shop/a HTTP/1.1\r\n\(fields)\r\n\r\n")
            #expect(response.hasPrefix("HTTP/1.1 503 "), "\(response)")
            let coordinator = proxy.api.coordinator
            try await eventually("the breaker opens") {
                try await coordinator.breaker(service: "shop").fleet.cause == "retry_after"
            }
        }
    }

    @Test("CONNECT is not forwarded")
    func connectIsNotForwarded() async throws {
        try await ProxyTestAPI.with(upstream: { try await $0.answer("200 OK") }) { proxy in
            let response = try await RawConnection.exchange(
                port: proxy.client.port, "CONNECT /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
            #expect(response.hasPrefix("HTTP/1.1 4"), "\(response)")
            #expect(proxy.upstream.received == [])
        }
    }

    @Test("Fields over the size limit are refused with that reason")
    func largeFields() async throws {
        try await ProxyTestAPI.with(upstream: { try await $0.answer("200 OK") }) { proxy in
            let field = "X: " + String(repeating: "x", count: 300_000)
            let response = try await RawConnection.exchange(
                port: proxy.client.port, "GET /proxy/shop/a HTTP/1.1\r\nHost: localhost\r\n\(field)\r\n\r\n", until: "\r\n\r\n")
            #expect(response.hasPrefix("HTTP/1.1 431 "), "\(response)")
        }
    }
}

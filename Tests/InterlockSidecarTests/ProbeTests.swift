import Glibc
import InterlockCore
import InterlockProcesses
import NIOCore
import NIOPosix
import Testing

@testable import InterlockSidecar

@Suite("A probe on a real connection")
struct ProbeTests {
    /// Makes `times` probes of `http://127.0.0.1:port`, or of `target`, and returns the finding of the last.
    private func runProbe(
        times: Int = 1, port: Int, _ target: ProbeSettings.Target = .http("/status"), timeout: Duration = .seconds(5),
        expectation: ProbeExpectation = ProbeExpectation(), url: String? = nil, certificateAuthority: String? = nil,
        eventLoopGroup: any EventLoopGroup = MultiThreadedEventLoopGroup.singleton
    ) async throws -> ProbeFinding {
        let settings = ProbeSettings(target: target, interval: timeout * 2, timeout: timeout, expectation: expectation)
        let probe = try Probe(
            settings, url: url ?? "http://127.0.0.1:\(port)", certificateAuthority: certificateAuthority,
            eventLoopGroup: eventLoopGroup)
        for _ in 1..<times { _ = await probe.run() }
        return await probe.run()
    }

    @Test("A path is requested below the service's URL, on a new connection, with a User-Agent")
    func pathIsRequestedBelowServiceURL() async throws {
        try await ProbedServer.with { server, port in
            for url in ["http://127.0.0.1:\(port)/v1/", "http://127.0.0.1:\(port)/v1"] {
                let finding = try await runProbe(times: 2, port: port, url: url)
                #expect(finding == .good)
            }
            #expect(server.connectionCount == 4)
            let lines = server.requests.map { $0.split(separator: "\r\n").map { $0.lowercased() } }
            #expect(lines.count == 4)
            for lines in lines {
                #expect(lines.first == "get /v1/status http/1.1")
                #expect(lines.contains("user-agent: interlock/\(SidecarVersion.current)"))
                #expect(lines.contains("accept-encoding: identity"))
                #expect(lines.contains("connection: close"))
            }
        }
    }

    @Test("A full URL is requested unchanged")
    func wholeURL() async throws {
        try await ProbedServer.with { server, port in
            let finding = try await runProbe(port: port, .http("http://127.0.0.1:\(port)/a?b=c"), url: "http://elsewhere.invalid")
            #expect(finding == .good)
            #expect(server.requests.first?.hasPrefix("GET /a?b=c HTTP/1.1") == true)
        }
    }

    @Test("The status of a response decides")
    func statusOfResponseDecides() async throws {
        try await ProbedServer.with { server, port in
            server.answer(.http(503, body: "sorry"))
            let finding = try await runProbe(port: port)
            #expect(finding == .bad("status 503, expected 200..399"))
        }
    }

    @Test("A redirect is evaluated, not followed")
    func redirectIsEvaluatedNotFollowed() async throws {
        try await ProbedServer.with { server, port in
            server.answer(.http(302, headers: ["Location: http://127.0.0.1:\(port)/elsewhere"]))
            let finding = try await runProbe(port: port, expectation: ProbeExpectation(statuses: StatusSet(200...200)))
            #expect(finding == .bad("status 302, expected 200"))
            #expect(server.requests.count == 1)
        }
    }

    @Test("Only the first 64 KiB of an endless body are evaluated")
    func largeBody() async throws {
        try await ProbedServer.with { server, port in
            let filling = String(repeating: "x", count: ProbeExpectation.inspectedBytes - 2)
            server.answer(.bytes("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\nok\(filling)beyond"))
            let within = try await runProbe(port: port, expectation: ProbeExpectation(body: [.contains("ok")]))
            #expect(within == .good)
            let beyond = try await runProbe(port: port, expectation: ProbeExpectation(body: [.contains("beyond")]))
            #expect(beyond == .bad("the body does not contain \"beyond\""))
        }
    }

    @Test(
        "A response that is incomplete at the timeout is bad",
        arguments: [
            "", "HTTP/1.1 200 OK\r\nContent-", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
        ])
    func responseThatIsIncompleteAtTimeoutIsBad(answer: String) async throws {
        try await ProbedServer.with { server, port in
            server.answer(.bytes(answer))
            // On a busy machine this process may be delayed; such probes say nothing and are repeated.
            try await eventually("a probe is judged") {
                let finding = try await runProbe(port: port, timeout: .milliseconds(200))
                guard case .unjudged = finding else {
                    #expect(finding == .bad("no complete response within 200ms"))
                    return true
                }
                return false
            }
        }
    }

    @Test("A connection closed before the response is bad")
    func connectionClosedBeforeResponseIsBad() async throws {
        try await ProbedServer.with { server, port in
            server.answer(.close)
            let finding = try await runProbe(port: port)
            #expect(finding == .bad("the connection was closed before the response was complete"))
        }
    }

    @Test("A response that is not HTTP is bad")
    func notHTTP() async throws {
        try await ProbedServer.with { server, port in
            server.answer(.bytes("-ERR unknown command\r\n"))
            let finding = try await runProbe(port: port)
            guard case .bad = finding else {
                Issue.record("\(finding)")
                return
            }
        }
    }

    @Test("A refused connection is bad immediately", arguments: [true, false])
    func refusedConnectionIsBadImmediately(isHTTP: Bool) async throws {
        // Nothing listens on port 1; a port that was free a moment ago may be in use again.
        let port = 1
        let target: ProbeSettings.Target = isHTTP ? .http("/") : .tcp(host: "127.0.0.1", port: port)
        let finding = try await runProbe(port: port, target, timeout: .seconds(3600))
        #expect(finding == .bad("the connection was refused"))
    }

    @Test("A probe of an unresolvable name fails")
    func probeOfUnresolvableNameFails() async throws {
        let finding = try await runProbe(port: 1, .tcp(host: "nowhere.invalid", port: 1), timeout: .seconds(60))
        #expect(finding == .bad("cannot resolve nowhere.invalid"))
    }

    @Test("A TCP connection that is established is good, and is closed again")
    func establishedTCPConnectionIsGood() async throws {
        try await ProbedServer.with { server, port in
            let finding = try await runProbe(port: port, .tcp(host: "127.0.0.1", port: port))
            #expect(finding == .good)
            try await eventually("the connection was accepted and closed") { server.connectionCount == 1 && server.isIdle }
        }
    }

    // MARK: TLS

    @Test("A certificate of an unknown authority is bad unless tls.ca contains the authority's root")
    func certificateOfUnknownAuthorityIsBad() async throws {
        try await withCertificate { certificate in
            try await ProbedServer.with(certificate: certificate) { _, port in
                let url = "https://localhost:\(port)"
                let untrusted = try await runProbe(port: port, url: url)
                #expect(
                    untrusted.reason?.description.hasPrefix("the TLS handshake failed: its certificate is not signed") == true)
                let trusted = try await runProbe(port: port, url: url, certificateAuthority: certificate.certificatePath)
                #expect(trusted == .good)
            }
        }
    }

    @Test("A certificate of another host is bad, regardless of its authority")
    func anotherHost() async throws {
        try await withCertificate { certificate in
            try await ProbedServer.with(certificate: certificate) { _, port in
                let finding = try await runProbe(
                    port: port, url: "https://127.0.0.2:\(port)", certificateAuthority: certificate.certificatePath)
                guard case .bad = finding else {
                    Issue.record("\(finding)")
                    return
                }
            }
        }
    }

    @Test("An unreadable certificate file says nothing about the service")
    func missingAuthority() async throws {
        try await ProbedServer.with { _, port in
            let finding = try await runProbe(
                port: port, url: "https://localhost:\(port)", certificateAuthority: "/nowhere/ca.pem")
            #expect(finding == .unjudged("the tls.ca file cannot be used"))
        }
    }

    private func withCertificate(_ body: (TestCertificate) async throws -> Void) async throws {
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        try await body(try await TestCertificate.selfSigned(in: folder.path))
    }

    // MARK: Faults of the prober

    @Test("A cancelled probe says nothing about the service")
    func cancelledProbeSaysNothingAboutService() async throws {
        try await ProbedServer.with { server, port in
            server.answer(.bytes("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"))
            let task = Task { try await runProbe(port: port, timeout: .seconds(3600)) }
            try await eventually("the probe is in progress") { server.requests.count == 1 }
            task.cancel()
            let finding = try await task.value
            #expect(finding == .unjudged("the probe was stopped"))
        }
    }

    @Test("A probe delayed by this process says nothing about the service", arguments: [true, false])
    func probeDelayedByThisProcessSaysNothingAboutService(isHTTP: Bool) async throws {
        try await ProbedServer.with { _, port in
            let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
            // The probe's event loop is blocked for longer than the probe's timeout.
            group.next().execute { usleep(700_000) }
            let target: ProbeSettings.Target = isHTTP ? .http("/") : .tcp(host: "127.0.0.1", port: port)
            let finding = try await runProbe(port: port, target, timeout: .milliseconds(100), eventLoopGroup: group)
            guard case .unjudged(let reason) = finding, reason.description.hasPrefix("this sidecar itself was delayed") else {
                Issue.record("\(finding)")
                return
            }
            try await group.shutdownGracefully()
        }
    }

    @Test("A probe that cannot be cancelled, such as during name resolution, is bad at its timeout")
    func unstoppable() async {
        let group = MultiThreadedEventLoopGroup.singleton
        let finding = await ProbeDeadline(timeout: .seconds(1), eventLoopGroup: group).within {
            try await group.any().scheduleTask(in: .seconds(3)) {}.futureResult.get()
            return .good
        }
        #expect(finding == .bad("no complete response within 1s"))
    }

    @Test(
        "Local errors say nothing about the service",
        arguments: [EMFILE, ENFILE, ENOMEM, ENOBUFS, EADDRNOTAVAIL])
    func ownErrors(code: CInt) {
        guard case .unjudged = ProbeFinding(IOError(errnoCode: code, reason: "connect")) else {
            Issue.record("\(code) was given a verdict")
            return
        }
    }
}

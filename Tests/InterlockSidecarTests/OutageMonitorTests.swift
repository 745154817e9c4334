import InterlockCore
import InterlockProcesses
import Testing

@testable import InterlockSidecar
@testable import SidecarListeners

@Suite("Outage monitor")
struct OutageMonitorTests {
    private static let down = OutageFinding.down(reason: "status 503, expected 200..399")

    @Test("The first bad probe reports an outage, and probing continues")
    func firstBadProbeReportsOutage() async throws {
        try await ProbedServer.with { server, port in
            server.answer(.http(503))
            let breakers = RecordingBreakers()
            try await OutageMonitor.with([.probed("catalog", port: port, .fast())], reporter: breakers.reporter) { monitor in
                try await eventually("the report was sent more than once") { breakers.findings.count >= 3 }
                #expect(breakers.findings.allSatisfy { $0 == Self.down })
                let reading = try #require(monitor.reading(ofService: "catalog"))
                #expect(reading.prober == .all)
                #expect(reading.failureCount >= 3)
                #expect(reading.lastProbe?.finding == .bad("status 503, expected 200..399"))
            }
        }
    }

    @Test("The configured number of good probes reports the end of an outage")
    func configuredNumberOfGoodProbesReportsEndOfOutage() async throws {
        try await ProbedServer.with { server, port in
            server.answer(.http(503))
            let breakers = RecordingBreakers()
            let service = ServiceDefinition.probed("catalog", port: port, .fast(healthyAfter: 3))
            try await OutageMonitor.with([service], reporter: breakers.reporter) { monitor in
                try await eventually("the outage was reported") { breakers.findings.contains(Self.down) }
                server.answer(.http(200))
                try await eventually("the end was reported") { breakers.findings.last == .up }
                let successes = try #require(monitor.reading(ofService: "catalog")?.successCount)
                #expect(successes >= 3)
            }
        }
    }

    @Test("A failed report is repeated at the next probe until it succeeds")
    func reportedAgain() async throws {
        try await ProbedServer.with { server, port in
            let breakers = RecordingBreakers()
            breakers.fail(3)
            let service = ServiceDefinition.probed("catalog", port: port, .fast(healthyAfter: 1))
            try await OutageMonitor.with([service], reporter: breakers.reporter) { _ in
                try await eventually("the report arrived") { breakers.findings == [.up] }
                let requestCount = server.requests.count
                try await eventually("probing continued") { server.requests.count >= requestCount + 5 }
                #expect(breakers.findings == [.up])
            }
        }
    }

    @Test("Two probes of a slow service never overlap")
    func oneAtATime() async throws {
        try await ProbedServer.with { hanging, hangingPort in
            hanging.answer(ProbedServer.silence)
            try await ProbedServer.with { server, port in
                let services = [
                    ServiceDefinition.probed("slow", port: hangingPort, .fast(timeout: .seconds(3600))),
                    ServiceDefinition.probed("catalog", port: port, .fast()),
                ]
                try await OutageMonitor.with(services, reporter: RecordingBreakers().reporter) { _ in
                    try await eventually("the probe is pending, and another service was probed often") {
                        hanging.connectionCount > 0 && server.requests.count >= 10
                    }
                    #expect(hanging.connectionCount == 1)
                }
            }
        }
    }

    @Test("A service without a probe is not probed")
    func serviceWithoutProbeIsNotProbed() async throws {
        try await ProbedServer.with { server, port in
            let breakers = RecordingBreakers()
            let services = [
                ServiceDefinition(name: "quiet", upstream: UpstreamSettings(url: "http://127.0.0.1:\(port)")),
                ServiceDefinition.probed("catalog", port: port, .fast()),
            ]
            try await OutageMonitor.with(services, reporter: breakers.reporter) { monitor in
                try await eventually("the other service was probed") { breakers.findings(of: "catalog") == [.up] }
                #expect(monitor.readings.map(\.service) == ["catalog"])
            }
        }
    }

    // MARK: HTTP/2

    @Test("A service called over HTTP/2 is probed over HTTP/2, unless its probe is elsewhere")
    func http2ServiceIsProbedOverHTTP2() async throws {
        let reply: ScriptedHTTP2Server.Reply = { _, frame in
            frame.endsStream ? [ScriptedHTTP2Server.answer(frame.stream)] : []
        }
        try await ScriptedHTTP2Server.with(reply) { server in
            try await ProbedServer.with { _, otherPort in
                var service = ServiceDefinition.probed("catalog", port: server.port, .fast())
                service.upstream?.speaksHTTP2 = true
                var elsewhere = service
                elsewhere.name = "elsewhere"
                elsewhere.probe?.target = .http("http://127.0.0.1:\(otherPort)/status")
                try await OutageMonitor.with([service, elsewhere], reporter: RecordingBreakers().reporter) { monitor in
                    for name in ["catalog", "elsewhere"] {
                        try await eventually("\(name) is probed") { monitor.reading(ofService: name)?.lastProbe != nil }
                        #expect(monitor.reading(ofService: name)?.lastProbe?.finding == .good)
                    }
                }
            }
        }
    }

    @Test("The report of a response that is not HTTP/1.1 suggests http2: true")
    func otherProtocol() async throws {
        try await ProbedServer.with { server, port in
            server.answer(.bytes("\0\0\u{12}\u{4}\0\0\0\0\0"))
            let service = ServiceDefinition.probed("catalog", port: port, .fast())
            try await OutageMonitor.with([service], reporter: RecordingBreakers().reporter) { monitor in
                try await eventually("the service is probed") {
                    monitor.reading(ofService: "catalog")?.lastProbe != nil
                }
                #expect(
                    monitor.reading(ofService: "catalog")?.lastProbe?.finding
                        == .bad("the response is not HTTP/1.1; set http2: true if the service requires HTTP/2"))
            }
        }
    }

    // MARK: Reloading

    @Test("A reload starts and stops probes, and leaves unchanged ones running")
    func reloadStartsAndStopsProbes() async throws {
        try await ProbedServer.with { steady, steadyPort in
            try await ProbedServer.with { _, port in
                let breakers = RecordingBreakers()
                // A restarted probe would send another request immediately.
                let unchanged = ServiceDefinition.probed(
                    "steady", port: steadyPort, .fast(every: .milliseconds(10_000), timeout: .seconds(5)))
                let removed = ServiceDefinition.probed("removed", port: port, .fast())
                let added = ServiceDefinition.probed("added", port: port, .fast())
                try await OutageMonitor.with([unchanged, removed], reporter: breakers.reporter) { monitor in
                    try await eventually("both services are probed") {
                        steady.requests.count == 1 && breakers.findings(of: "removed") == [.up]
                    }
                    var changed = unchanged
                    changed.limits = [LimitDefinition(name: "1s", limit: 1, window: .seconds(1))]
                    monitor.reload(services: [changed, added])
                    try await eventually("the new service is probed") { breakers.findings(of: "added") == [.up] }
                    #expect(monitor.readings.map(\.service) == ["added", "steady"])
                    // A restarted probe would have no result yet, or would have sent a second request.
                    #expect(monitor.reading(ofService: "steady")?.lastProbe != nil)
                    #expect(steady.requests.count == 1)
                }
            }
        }
    }

    @Test("A changed probe takes effect")
    func changedProbeTakesEffect() async throws {
        try await ProbedServer.with { server, port in
            let breakers = RecordingBreakers()
            var service = ServiceDefinition.probed("catalog", port: port, .fast(every: .seconds(3600)))
            try await OutageMonitor.with([service], reporter: breakers.reporter) { monitor in
                try await eventually("the service is watched") { !monitor.readings.isEmpty }
                service.probe?.interval = .milliseconds(25)
                service.probe?.target = .http("/elsewhere")
                monitor.reload(services: [service])
                try await eventually("the new path is requested") {
                    server.requests.last?.hasPrefix("GET /elsewhere") == true
                }
            }
        }
    }

    // MARK: Shutdown

    @Test("A monitor that shuts down abandons its probes without reporting a finding")
    func shuttingDown() async throws {
        try await ProbedServer.with { server, port in
            server.answer(ProbedServer.silence)
            let breakers = RecordingBreakers()
            let service = ServiceDefinition.probed("catalog", port: port, .fast(every: .seconds(7), timeout: .seconds(6)))
            let clock = ContinuousClock()
            var stopped = clock.now
            try await OutageMonitor.with([service], reporter: breakers.reporter) { _ in
                try await eventually("a probe is in progress") { server.requests.count == 1 }
                stopped = clock.now
            }
            #expect(clock.now - stopped < .seconds(5))
            #expect(breakers.findings.isEmpty)
        }
    }
}

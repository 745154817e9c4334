import InterlockCore
import InterlockProcesses
import Testing

@testable import InterlockSidecar
@testable import SidecarListeners

@Suite("The outage monitor")
struct OutageMonitorTests {
    private static let down = OutageFinding.down(reason: "status 503, expected 200..399")

    @Test("an outage is told at the first bad probe, and probing goes on")
    func down() async throws {
        try await ProbedServer.with { server, port in
            server.answer(.http(503))
            let breakers = ToldBreakers()
            try await OutageMonitor.with([.probed("catalog", port: port, .fast())], reports: breakers.reports) { monitor in
                try await eventually("it was told more than once") { breakers.findings.count >= 3 }
                #expect(breakers.findings.allSatisfy { $0 == Self.down })
                let reading = try #require(monitor.reading(ofService: "catalog"))
                #expect(reading.prober == .all)
                #expect(reading.failures >= 3)
                #expect(reading.last?.finding == .bad("status 503, expected 200..399"))
            }
        }
    }

    @Test("the end of an outage is told after as many good probes as are asked for")
    func up() async throws {
        try await ProbedServer.with { server, port in
            server.answer(.http(503))
            let breakers = ToldBreakers()
            let service = ServiceDefinition.probed("catalog", port: port, .fast(healthyAfter: 3))
            try await OutageMonitor.with([service], reports: breakers.reports) { monitor in
                try await eventually("the outage was told") { breakers.findings.contains(Self.down) }
                server.answer(.http(200))
                try await eventually("its end was told") { breakers.findings.last == .up }
                let successes = try #require(monitor.reading(ofService: "catalog")?.successes)
                #expect(successes >= 3)
            }
        }
    }

    @Test("what could not be told is told at the next probe, and then no more")
    func toldAgain() async throws {
        try await ProbedServer.with { server, port in
            let breakers = ToldBreakers()
            breakers.fail(3)
            let service = ServiceDefinition.probed("catalog", port: port, .fast(healthyAfter: 1))
            try await OutageMonitor.with([service], reports: breakers.reports) { _ in
                try await eventually("it was told in the end") { breakers.findings == [.up] }
                let asked = server.requests.count
                try await eventually("it was probed on") { server.requests.count >= asked + 5 }
                #expect(breakers.findings == [.up])
            }
        }
    }

    @Test("two probes of a service are never under way at the same time, however slow it is")
    func oneAtATime() async throws {
        try await ProbedServer.with { hanging, hangingPort in
            hanging.answer(ProbedServer.silence)
            try await ProbedServer.with { server, port in
                let services = [
                    ServiceDefinition.probed("slow", port: hangingPort, .fast(timeout: .seconds(3600))),
                    ServiceDefinition.probed("catalog", port: port, .fast()),
                ]
                try await OutageMonitor.with(services, reports: ToldBreakers().reports) { _ in
                    try await eventually("it is being probed, and another at the same pace was often") {
                        hanging.connections > 0 && server.requests.count >= 10
                    }
                    #expect(hanging.connections == 1)
                }
            }
        }
    }

    @Test("a service without a probe is left alone")
    func unprobed() async throws {
        try await ProbedServer.with { server, port in
            let breakers = ToldBreakers()
            let services = [
                ServiceDefinition(name: "quiet", upstream: UpstreamSettings(url: "http://127.0.0.1:\(port)")),
                ServiceDefinition.probed("catalog", port: port, .fast()),
            ]
            try await OutageMonitor.with(services, reports: breakers.reports) { monitor in
                try await eventually("the other was probed") { breakers.findings(of: "catalog") == [.up] }
                #expect(monitor.readings.map(\.service) == ["catalog"])
            }
        }
    }

    // MARK: HTTP/2

    @Test("a service that is called with HTTP/2 is probed with HTTP/2, and one elsewhere is not")
    func http2() async throws {
        let reply: PlayedHTTP2Server.Reply = { _, frame in
            frame.endsStream ? [PlayedHTTP2Server.answer(frame.stream)] : []
        }
        try await PlayedHTTP2Server.with(reply) { server in
            try await ProbedServer.with { _, otherPort in
                var service = ServiceDefinition.probed("catalog", port: server.port, .fast())
                service.upstream?.speaksHTTP2 = true
                var elsewhere = service
                elsewhere.name = "elsewhere"
                elsewhere.probe?.target = .http("http://127.0.0.1:\(otherPort)/status")
                try await OutageMonitor.with([service, elsewhere], reports: ToldBreakers().reports) { monitor in
                    for name in ["catalog", "elsewhere"] {
                        try await eventually("\(name) is probed") { monitor.reading(ofService: name)?.last != nil }
                        #expect(monitor.reading(ofService: name)?.last?.finding == .good)
                    }
                }
            }
        }
    }

    @Test("an answer that is not HTTP/1.1 is reported in words for people")
    func otherProtocol() async throws {
        try await ProbedServer.with { server, port in
            server.answer(.bytes("\0\0\u{12}\u{4}\0\0\0\0\0"))
            let service = ServiceDefinition.probed("catalog", port: port, .fast())
            try await OutageMonitor.with([service], reports: ToldBreakers().reports) { monitor in
                try await eventually("it is probed") { monitor.reading(ofService: "catalog")?.last != nil }
                #expect(
                    monitor.reading(ofService: "catalog")?.last?.finding
                        == .bad("the response is not HTTP/1.1; set http2: true if the service requires HTTP/2"))
            }
        }
    }

    // MARK: Reloading

    @Test("a reload begins and ends probes, and leaves those alone that did not change")
    func reload() async throws {
        try await ProbedServer.with { steady, steadyPort in
            try await ProbedServer.with { _, port in
                let breakers = ToldBreakers()
                // A restarted probe would send another request at once.
                let unchanged = ServiceDefinition.probed(
                    "steady", port: steadyPort, .fast(every: .milliseconds(10_000), timeout: .seconds(5)))
                let going = ServiceDefinition.probed("going", port: port, .fast())
                let coming = ServiceDefinition.probed("coming", port: port, .fast())
                try await OutageMonitor.with([unchanged, going], reports: breakers.reports) { monitor in
                    try await eventually("both are probed") {
                        steady.requests.count == 1 && breakers.findings(of: "going") == [.up]
                    }
                    var changed = unchanged
                    changed.limits = [LimitDefinition(name: "1s", limit: 1, window: .seconds(1))]
                    monitor.reload(services: [changed, coming])
                    try await eventually("the new one is probed") { breakers.findings(of: "coming") == [.up] }
                    #expect(monitor.readings.map(\.service) == ["coming", "steady"])
                    // A restarted probe would have no result yet, or would have sent a second request.
                    #expect(monitor.reading(ofService: "steady")?.last != nil)
                    #expect(steady.requests.count == 1)
                }
            }
        }
    }

    @Test("a probe that was changed is made as it is now")
    func changed() async throws {
        try await ProbedServer.with { server, port in
            let breakers = ToldBreakers()
            var service = ServiceDefinition.probed("catalog", port: port, .fast(every: .seconds(3600)))
            try await OutageMonitor.with([service], reports: breakers.reports) { monitor in
                try await eventually("it is watched") { !monitor.readings.isEmpty }
                service.probe?.interval = .milliseconds(25)
                service.probe?.target = .http("/elsewhere")
                monitor.reload(services: [service])
                try await eventually("the new path is asked") {
                    server.requests.last?.hasPrefix("GET /elsewhere") == true
                }
            }
        }
    }

    // MARK: Shutdown

    @Test("a monitor that goes down waits for no probe, and makes nothing of those under way")
    func shuttingDown() async throws {
        try await ProbedServer.with { server, port in
            server.answer(ProbedServer.silence)
            let breakers = ToldBreakers()
            let service = ServiceDefinition.probed("catalog", port: port, .fast(every: .seconds(7), timeout: .seconds(6)))
            let clock = ContinuousClock()
            var stopped = clock.now
            try await OutageMonitor.with([service], reports: breakers.reports) { _ in
                try await eventually("a probe is under way") { server.requests.count == 1 }
                stopped = clock.now
            }
            #expect(clock.now - stopped < .seconds(5))
            #expect(breakers.findings.isEmpty)
        }
    }
}

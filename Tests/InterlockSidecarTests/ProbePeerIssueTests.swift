import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOPosix
import Testing

@testable import InterlockSidecar

@Suite("Known issues of other circuit breakers: probes")
struct ProbePeerIssueTests {
    private static let failures: [ProbedServer.Response] = [
        .http(500), .http(404), .http(200, body: "down for maintenance"), .close, .bytes("garbage\r\n\r\n"), .http(302),
        .bytes("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nok"),
    ]

    private static let settings = ProbeSettings(
        target: .http("/"), interval: .milliseconds(120), timeout: .milliseconds(100),
        expectation: ProbeExpectation(statuses: StatusSet(200...200), body: [.contains("ok")]), healthyAfter: 1, origin: .all)

    @Test("Failing probes never report that a service is up")
    func failureNeverCloses() async throws {
        try await ProbedServer.with { server, port in
            let breakers = RecordingBreakers()
            server.answer(Self.failures[0])
            try await OutageMonitor.with([.probed("catalog", port: port, Self.settings)], reporter: breakers.reporter) { _ in
                for response in Self.failures {
                    server.answer(response)
                    let findingCount = breakers.findings.count
                    try await eventually("two more probes failed") { breakers.findings.count >= findingCount + 2 }
                }
                #expect(!breakers.findings.contains(.up))
                server.answer(.http(200, body: "ok"))
                try await eventually("good probes close the breaker") { breakers.findings.last == .up }
            }
        }
    }

    @Test("A breaker opened by probes stays open while they fail, and closes when they succeed")
    func breakerStaysOpenWhileProbesFail() async throws {
        try await RedisServer.withServer { redis in
            try await ProbedServer.with { server, port in
                let service = ServiceDefinition.probed("catalog", port: port, Self.settings)
                let configuration = InterlockConfiguration(redis: redis.configuration, services: [service], host: "test")
                let coordinator = Coordinator(
                    configuration: configuration, eventLoop: MultiThreadedEventLoopGroup.singleton.next(),
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
                await coordinator.start()
                await coordinator.waitUntilReady()
                server.answer(.http(500))
                try await OutageMonitor.with([service], coordinator: coordinator, reporter: OutageReporter(to: coordinator)) {
                    _ in
                    try await eventually("the breaker is open") {
                        try await coordinator.breaker(service: "catalog").state == .open
                    }
                    let cause = try await coordinator.breaker(service: "catalog").fleet.cause
                    #expect(cause == BreakerCause.outage.rawValue)
                    for response in Self.failures {
                        server.answer(response)
                        let requestCount = server.requests.count
                        try await eventually("two more probes failed") { server.requests.count >= requestCount + 2 }
                        let state = try await coordinator.breaker(service: "catalog").state
                        #expect(state == .open)
                    }
                    server.answer(.http(200, body: "ok"))
                    try await eventually("the breaker is closed") {
                        try await coordinator.breaker(service: "catalog").state == .closed
                    }
                }
                await coordinator.stop()
            }
        }
    }
}

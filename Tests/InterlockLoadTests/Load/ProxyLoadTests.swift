import InterlockCore

@testable import InterlockJudge
import NIOPosix
import Testing

@testable import InterlockLoad

@Suite("Load through the proxy")
struct ProxyLoadTests {
    /// Runs a load against an upstream that replaces the HTTP API and answers every request.
    private func run(_ phases: FailurePhases?) async throws -> RecordedRun {
        let upstream = try await BenchUpstream.start(on: MultiThreadedEventLoopGroup.singleton, phases: phases)
        let port = try #require(Int(upstream.url.split(separator: ":").last ?? ""))
        let run = try await RecordedRun.of(ScriptedSidecar()) { plan in
            plan.workload = .proxy
            plan.services = StandardServices(upstream: upstream.url).load
            plan.sidecars[0].http = SidecarEndpoint.HTTPAddress(host: "127.0.0.1", port: port)
        }
        try await upstream.close()
        return run
    }

    @Test("An answer of the upstream counts as passed")
    func answerOfUpstreamCountsAsPassed() async throws {
        let run = try await run(nil)
        #expect(run.endings.count > 0)
        #expect(run.endings.allSatisfy { $0 == .done(.passed(status: 200)) })
        #expect(run.operations.allSatisfy { $0 == .proxied(service: 6) })
    }

    @Test("An upstream in a bad phase answers with errors, which pass too")
    func badPhase() async throws {
        let always = FailurePhases(
            good: .zero...(.zero), bad: .seconds(3600)...(.seconds(3600)), failureFraction: 1, length: .seconds(7200),
            random: SeededRandom(seed: 1))
        let run = try await run(always)
        #expect(run.endings.contains(.done(.passed(status: 503))))
    }

    @Test("A missing HTTP listener counts as not connected")
    func noListener() async throws {
        let run = try await RecordedRun.of(ScriptedSidecar()) { plan in
            plan.workload = .proxy
            plan.services = StandardServices(upstream: "http://127.0.0.1:1").load
            plan.sidecars[0].http = SidecarEndpoint.HTTPAddress(host: "127.0.0.1", port: 1)
            plan.patience = .milliseconds(500)
        }
        #expect(run.endings.count > 0)
        #expect(run.endings.allSatisfy { $0 == .failed(code: "not-connected") || $0 == .unknown(reason: "timed-out") })
    }
}

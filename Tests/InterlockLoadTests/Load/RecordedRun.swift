@testable import InterlockJudge
import InterlockClient
import Interlock
import InterlockCore
import InterlockProcesses
import InterlockTesting
import NIOConcurrencyHelpers
import NIOPosix

@testable import InterlockLoad

/// The results of a run against one scripted sidecar.
struct RecordedRun {
    var outcome: LoadOutcome
    var events: [HistoryEvent]
    var check: CheckReport
    /// The commands that the sidecar received.
    var commands: [ReceivedCommand]
    var connectionCount: Int

    var endings: [OperationEnding] {
        events.compactMap { if case .ended(_, let ending) = $0.kind { ending } else { nil } }
    }

    var operations: [InterlockJudge.Operation] {
        events.compactMap { if case .invoked(_, _, let operation) = $0.kind { operation } else { nil } }
    }

    /// Runs a plan. By default, it runs locks in a closed loop for 100 ms.
    /// - Parameters:
    ///   - change: the changes to the default plan.
    ///   - during: the work to do from the start of the run.
    static func of(
        _ sidecar: ScriptedSidecar, answersLogin: Bool = true, change: (inout LoadPlan) -> Void = { _ in },
        during: @escaping @Sendable (LoadRun, MisbehavingRedis) async throws -> Void = { _, _ in }
    ) async throws -> RecordedRun {
        try await MisbehavingRedis.withServer(answersLogin: answersLogin) {
            sidecar.answer($0)
        } _: { server in
            let services = StandardServices().load
            var api = SidecarClientConfiguration(address: .tcp(host: "127.0.0.1", port: server.port))
            api.connectTimeout = .seconds(10)
            api.responseTimeout = .seconds(10)
            var plan = LoadPlan(
                workload: .lock, sidecars: [SidecarEndpoint(number: 0, resp: api)], services: services)
            plan.pacing = .closedLoop
            plan.clients = 3
            plan.names = 1000
            plan.duration = .milliseconds(100)
            plan.hold = .zero...(.zero)
            change(&plan)
            let eventLoop = MultiThreadedEventLoopGroup.singleton.next()
            let events = NIOLockedValueBox<[HistoryEvent]>([])
            let rules = HistoryRules(
                services: plan.services.rules, sidecars: 1, patienceMilliseconds: 60_000, recoveryMilliseconds: 5000)
            let recorder = HistoryRecorder(
                eventLoop: eventLoop, rules: rules, sinks: [{ event in events.withLockedValue { $0.append(event) } }])
            let run = try LoadRun(plan: plan, eventLoop: eventLoop, recorder: recorder)
            async let other: Void = during(run, server)
            let outcome = try await run.run()
            try await other
            let check = await recorder.finish()
            return RecordedRun(
                outcome: outcome, events: events.withLockedValue { $0 }, check: check?.report ?? CheckReport(),
                commands: server.commands, connectionCount: server.connectionCount)
        }
    }
}

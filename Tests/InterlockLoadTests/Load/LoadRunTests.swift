import InterlockJudge
import InterlockCore
import InterlockProcesses
import InterlockTesting
import NIOConcurrencyHelpers
import Testing

@testable import InterlockLoad

@Suite("A run of load")
struct LoadRunTests {
    @Test("Every lease is released, and no invariant is violated")
    func lockGrants() async throws {
        let run = try await RecordedRun.of(ScriptedSidecar())
        let releasedCount = run.endings.count { $0 == .done(.released) }
        #expect(releasedCount > 0)
        #expect(run.endings.count == 2 * releasedCount)
        #expect(run.operations.count == run.endings.count)
        #expect(run.check.violations == [])
        #expect(run.check.lockGrants == releasedCount)
    }

    @Test("The counts equal the recorded operations")
    func countsEqualRecordedOperations() async throws {
        let run = try await RecordedRun.of(ScriptedSidecar())
        let acquired = try #require(run.outcome.operations.first { $0.kind == .acquire })
        #expect(acquired.done == run.operations.count { $0.kind == .acquire })
        #expect(acquired.offered == acquired.done)
        #expect(acquired.latency?.count == acquired.done)
        #expect(run.outcome.timeline.reduce(0) { $0 + $1.done } == run.endings.count)
    }

    @Test("The resource guarded by a lock is written with its fence while the lock is held")
    func guardedResourceIsWrittenWithFence() async throws {
        let run = try await RecordedRun.of(ScriptedSidecar())
        let writes = run.events.filter { if case .wrote(_, _, _, _, isAccepted: true) = $0.kind { true } else { false } }
        #expect(writes.count == run.endings.count { $0 == .done(.released) })
    }

    @Test("An operation whose answer is lost is unknown, and its client continues over another connection")
    func lostAnswers() async throws {
        let sidecar = ScriptedSidecar { command in
            command.text[0] == "LOCK.ACQUIRE" && command.connection < 5 ? .close : nil
        }
        let run = try await RecordedRun.of(sidecar, change: Self.longRun, during: Self.stopAfterRelease)
        #expect(run.endings.contains(.unknown(reason: "answer-lost")))
        #expect(run.endings.contains(.done(.released)))
        let acquired = try #require(run.outcome.operations.first { $0.kind == .acquire })
        #expect(acquired.unknown == run.endings.count { $0 == .unknown(reason: "answer-lost") })
    }

    @Test("An error counts as a failure under its first word")
    func errorCountsAsFailureUnderFirstWord() async throws {
        let sidecar = ScriptedSidecar { command in
            command.text[0] == "LOCK.ACQUIRE" ? .text("-UNAVAILABLE Redis cannot be reached\r\n") : nil
        }
        let run = try await RecordedRun.of(sidecar)
        let acquired = try #require(run.outcome.operations.first { $0.kind == .acquire })
        #expect(acquired.failed == ["UNAVAILABLE": acquired.offered])
    }

    @Test("An operation without an answer is unknown after the timeout, and its connection is closed")
    func unansweredOperationBecomesUnknown() async throws {
        let sidecar = ScriptedSidecar { $0.text[0] == "LOCK.ACQUIRE" && $0.connection < 5 ? .silence : nil }
        let run = try await RecordedRun.of(
            sidecar,
            change: { plan in
                Self.longRun(&plan)
                plan.wait = .zero
                plan.patience = .seconds(1)
            }, during: Self.stopAfterRelease)
        #expect(run.endings.contains(.unknown(reason: "timed-out")))
        #expect(run.endings.contains(.done(.released)))
    }

    @Test("An open loop continues without answers, and operations that never started are unsent")
    func openLoop() async throws {
        let sidecar = ScriptedSidecar { $0.text[0] == "LOCK.ACQUIRE" ? .silence : nil }
        let run = try await RecordedRun.of(sidecar) { plan in
            plan.pacing = .openLoop(rate: 500)
            plan.wait = .zero
            plan.patience = .milliseconds(700)
            plan.duration = .milliseconds(500)
        }
        let acquired = try #require(run.outcome.operations.first { $0.kind == .acquire })
        // The count has a Poisson distribution with a mean of 250 and a standard deviation of 16.
        #expect((150...350).contains(acquired.offered))
        #expect(acquired.unsent == acquired.offered - 3)
        #expect(acquired.unknown == 3)
    }

    @Test("Latencies count from the time at which an operation was due")
    func due() async throws {
        // The first operation gets no answer, and all others wait until it times out.
        let sidecar = ScriptedSidecar { $0.text[0] == "LOCK.ACQUIRE" && $0.connection < 3 ? .silence : nil }
        let run = try await RecordedRun.of(
            sidecar,
            change: { plan in
                Self.longRun(&plan)
                plan.pacing = .openLoop(rate: 200)
                plan.clients = 1
                plan.wait = .zero
                plan.patience = .milliseconds(500)
            }, during: Self.stopAfterRelease)
        let acquired = try #require(run.outcome.operations.first { $0.kind == .acquire })
        #expect(try #require(acquired.latency).max > 200_000)
    }

    @Test("A client that waited longer than its lease is valid renews before anything else")
    func renewsFirst() async throws {
        let run = try await RecordedRun.of(ScriptedSidecar(validFor: 0)) { $0.clients = 1 }
        let kinds = run.operations.map(\.kind)
        #expect(kinds.prefix(2) == [.acquire, .renew])
        #expect(!run.events.contains { if case .wrote = $0.kind { true } else { false } })
    }

    @Test("A client that overstays writes with a fence that may be stale and then tries to renew")
    func writesAfterLoss() async throws {
        // Every reply arrives within this validity.
        let sidecar = ScriptedSidecar(validFor: 1000) { $0.text[0] == "LOCK.RENEW" ? .text("$-1\r\n") : nil }
        let run = try await RecordedRun.of(sidecar) { plan in
            plan.clientBehavior = ClientBehavior(overstayProbability: 1)
            plan.ttl = .milliseconds(20)
            plan.names = 1
        }
        #expect(run.operations.contains { $0.kind == .renew } && !run.operations.contains { $0.kind == .release })
        #expect(run.events.contains { if case .wrote(_, _, _, _, isAccepted: false) = $0.kind { true } else { false } })
    }

    @Test("A client that forgets does not release")
    func neverReleases() async throws {
        let run = try await RecordedRun.of(ScriptedSidecar()) { $0.clientBehavior = ClientBehavior(forgetProbability: 1) }
        #expect(run.operations.allSatisfy { $0.kind == .acquire })
    }

    @Test("Vanishing clients close their connections during operations")
    func vanishingClientsCloseConnectionsDuringOperations() async throws {
        let sidecar = ScriptedSidecar { $0.text[0] == "LOCK.ACQUIRE" && $0.connection < 5 ? .silence : nil }
        let run = try await RecordedRun.of(sidecar, change: Self.longRun) { run, server in
            try await eventually("all clients wait") { server.commands.count { $0.text[0] == "LOCK.ACQUIRE" } >= 3 }
            let vanished = await run.vanish(count: 2)
            #expect(vanished == 2)
            await run.stop()
            _ = await run.vanish(count: 3)
        }
        #expect(run.endings.count { $0 == .unknown(reason: "answer-lost") } >= 2)
    }

    @Test("Breaker events of a sidecar are recorded in the history")
    func breakerEventsOfSidecarAreRecordedInHistory() async throws {
        let event = #"{"v":1,"type":"breaker","service":"bench-calls","state":"open","generation":7,"until_ms":0}"#
        let run = try await RecordedRun.of(ScriptedSidecar(events: [event]))
        #expect(
            run.events.contains {
                $0.kind == .breakerSeen(sidecar: 0, service: 4, state: .open, generation: 7, until: nil)
            })
    }

    @Test("A stopped run ends early with its measurements")
    func stoppedRunEndsEarlyWithMeasurements() async throws {
        let run = try await RecordedRun.of(ScriptedSidecar(), change: Self.longRun, during: Self.stopAfterRelease)
        #expect(run.endings.contains(.done(.released)))
        #expect(run.outcome.durationSeconds < 300)
    }

    private static func longRun(_ plan: inout LoadPlan) {
        plan.duration = .seconds(600)
    }

    @Sendable
    private static func stopAfterRelease(_ run: LoadRun, _ server: MisbehavingRedis) async throws {
        try await eventually("a lock was released") { server.commands.contains { $0.text[0] == "LOCK.RELEASE" } }
        await run.stop()
    }

    @Test("A sidecar that rejects the login is reported immediately")
    func refusedLogin() async throws {
        let sidecar = ScriptedSidecar { $0.text[0] == "PING" ? .text("-NOAUTH send an API key first\r\n") : nil }
        let error = await #expect(throws: LoadError.self) {
            _ = try await RecordedRun.of(sidecar, answersLogin: false)
        }
        #expect(error?.description.contains("NOAUTH") == true)
    }

    @Test("An impossible plan is rejected with the reason")
    func impossiblePlans() async throws {
        for change in Self.mistakes {
            await #expect(throws: LoadError.self) { _ = try await RecordedRun.of(ScriptedSidecar(), change: change) }
        }
    }

    private static let mistakes: [@Sendable (inout LoadPlan) -> Void] = [
        { $0.sidecars = [] }, { $0.clients = 0 }, { $0.names = 0 }, { $0.duration = .zero }, { $0.pacing = .openLoop(rate: 0) },
        { $0.workload = .proxy },
        {
            $0.workload = .limit; $0.services = LoadServices()
        }, { $0.ttl = .zero },
        {
            $0.workload = .mixed; $0.weights = WorkloadWeights(lock: 0, limit: 0, permit: 0, proxy: 0)
        },
    ]
}

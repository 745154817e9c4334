import Interlock
import InterlockCore
import Testing

@testable import Simulation

@Suite("Domains answer in time even if Redis does not", .timeLimit(.minutes(2)))
struct DomainTimeoutTests {
    private static func stage(_ policy: OutagePolicy) -> Stage {
        let limit = LimitDefinition(name: "1h", limit: 3, window: .seconds(3600))
        var domain = RateLimitDomain(name: "edge", rules: [DescriptorRule(key: "ip", limit: .rate(limit, isAligned: false))])
        domain.whenRedisIsDown = policy
        var settings = DomainSettings()
        settings.definitions = [domain]
        settings.timeout = .milliseconds(15)
        return Stage(domains: settings)
    }

    private func decide(_ stage: Stage, _ value: String = "a") -> Stage.Call<DescriptorResult> {
        stage.startCall(0) { coordinator, completion in
            let descriptor = RequestedDescriptor(entries: [DescriptorEntry(key: "ip", value: value)])
            _ = coordinator.decide("edge", [descriptor], completion: completion)
            return nil
        }
    }

    @Test("While Redis does not answer, each request is answered within the timeout, even behind a batch in flight")
    func silent() throws {
        let stage = Self.stage(.deny)
        stage.path(of: 0).isBlackHole = true
        var answers: [(at: Int64, answer: Stage.Call<DescriptorResult>)] = []
        for _ in 0..<20 {
            answers.append((stage.milliseconds, decide(stage)))
            stage.run(milliseconds: 7)
        }
        stage.run(milliseconds: 16)
        for (at, answer) in answers {
            #expect(answer.resultCount == 1)
            #expect((answer.endedAtMilliseconds ?? .max) - at <= 15)
            guard case .decided(let decided)? = answer.result else {
                Issue.record("it was not decided")
                continue
            }
            #expect(decided.isOverLimit)
        }
    }

    @Test("Refusals that this sidecar made without Redis do not apply once Redis answers again")
    func refusedLocally() throws {
        let stage = Self.stage(.local)
        stage.path(of: 0).isBlackHole = true
        for _ in 0..<5 {
            _ = decide(stage)
            stage.run(milliseconds: 16)
        }
        stage.path(of: 0).isBlackHole = false
        stage.run(milliseconds: 5000)
        let answer = decide(stage)
        stage.run(milliseconds: 20)
        guard case .decided(let decided)? = answer.result else {
            Issue.record("it was not decided")
            return
        }
        #expect(!decided.isOverLimit)
    }
}

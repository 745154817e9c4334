import InterlockCore
import InterlockJudge
import Testing

@Suite("Forced states")
struct ForcedStateTests {
    /// An operator forces the breaker closed for ten seconds, with a request at 100 and its answer at 300. Sidecar 0
    /// reports the forced state, and at 400 an open breaker.
    private func history() -> SyntheticHistory {
        var history = SyntheticHistory(services: [ServiceRules(name: "search", limits: [])])
        history.forced(nil, at: 100)
        history.forced(.closed, at: 300, until: 10_300)
        history.breaker(.closed, generation: 7, at: 301)
        history.breaker(.open, generation: 8, at: 400, until: 2000)
        return history
    }

    @Test("A breaker that opens while it is forced closed is a violation")
    func opens() {
        #expect(history().violatedInvariants == [.forcedStates])
    }

    @Test("A jump of the Redis clock may end a forced state before the operator has the answer, but not afterwards")
    func clockJump() {
        var early = history()
        early.fault(.clock, from: 200, to: nil)
        #expect(early.violatedInvariants.isEmpty)
        var late = history()
        late.fault(.clock, from: 350, to: nil)
        #expect(late.violatedInvariants == [.forcedStates])
    }

    @Test("A jump of the Redis clock may end a forced state if another fault may have killed the sidecars that know its end")
    func clockJumpAndKill() {
        var history = history()
        history.fault(.clock, from: 350, to: nil)
        history.fault(.kill, from: 355, to: 360)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A jump before the operator's request is not an excuse")
    func earlierJump() {
        var history = history()
        history.fault(.clock, from: 10, to: 50)
        #expect(history.violatedInvariants == [.forcedStates])
    }
}

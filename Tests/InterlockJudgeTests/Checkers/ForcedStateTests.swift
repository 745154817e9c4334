import InterlockCore
import InterlockJudge
import Testing

@Suite("Forced states")
struct ForcedStateTests {
    /// An operator forces the breaker closed for ten seconds, with a request at 100 and its answer at 300. Sidecar 0
    /// reports the forced state, and at 400 an open breaker.
    private func history() -> MadeHistory {
        var history = MadeHistory(services: [ServiceRules(name: "search", limits: [])])
        history.forced(nil, at: 100)
        history.forced(.closed, at: 300, until: 10_300)
        history.breaker(.closed, generation: 7, at: 301)
        history.breaker(.open, generation: 8, at: 400, until: 2000)
        return history
    }

    @Test("a breaker that opens although it is forced closed is found")
    func opens() {
        #expect(history().broken == [.forcedStates])
    }

    @Test("a jump of Redis' clock may end what is forced before the operator has the answer, and not afterwards")
    func clockJump() {
        var early = history()
        early.fault(.clock, from: 200, to: nil)
        #expect(early.broken.isEmpty)
        var late = history()
        late.fault(.clock, from: 350, to: nil)
        #expect(late.broken == [.forcedStates])
    }

    @Test("a jump of Redis' clock may end what is forced when another fault may have taken the sidecars that know the end")
    func clockJumpAndKill() {
        var history = history()
        history.fault(.clock, from: 350, to: nil)
        history.fault(.kill, from: 355, to: 360)
        #expect(history.broken.isEmpty)
    }

    @Test("a jump before the operator asked excuses nothing")
    func earlierJump() {
        var history = history()
        history.fault(.clock, from: 10, to: 50)
        #expect(history.broken == [.forcedStates])
    }
}

import InterlockCore
import Testing

@testable import InterlockJudge

@Suite("Open breakers")
struct BreakerCheckerTests {
    private func history() -> SyntheticHistory {
        SyntheticHistory(services: [ServiceRules(name: "search", limits: [])])
    }

    /// From 100 on, sidecar 0 knows that the breaker is open until 2000.
    private func open(until: Double? = 2000) -> SyntheticHistory {
        var history = history()
        history.breaker(.open, generation: 7, at: 100, until: until)
        return history
    }

    @Test("A permit requested after the trip reached its sidecar is a violation")
    func permitAfterTrip() {
        var history = open()
        history.permit(1, requested: 101, answered: 103)
        #expect(history.violatedInvariants == [.openBreakers])
    }

    @Test("A guarded call that passes after the trip is a violation")
    func passedAfterTrip() {
        var history = open()
        history.operation(.proxied(service: 0), requested: 500, ended: 510, .done(.passed(status: 200)))
        #expect(history.violatedInvariants == [.openBreakers])
    }

    @Test("A permit requested before the trip was known may be granted")
    func requestedBeforeTrip() {
        var history = open()
        history.permit(1, requested: 99, answered: 130)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A permit granted after the open time may be a trial")
    func afterOpenTime() {
        var history = open()
        history.permit(1, requested: 1990, answered: 2001, state: .halfOpen)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A sidecar that has not learned of the trip may grant a permit")
    func otherSidecar() {
        var history = open()
        history.permit(1, sidecar: 1, requested: 101, answered: 103)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A sidecar with a fast clock may consider an open time over early", arguments: [(0.0, false), (0.01, true)])
    func fastClock(drift: Double, isGood: Bool) {
        var history = open()
        history.rules.clockDrift = drift
        history.permit(1, requested: 1985, answered: 1986)
        #expect(history.violatedInvariants == (isGood ? [] : [.openBreakers]))
    }

    @Test("A refused call is correct")
    func refusedCallIsCorrect() {
        var history = open()
        history.operation(
            .permit(service: 0, waitMilliseconds: 0), requested: 101, ended: 102,
            .refused(.open(retryAfterMilliseconds: 1898)))
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A report of a later state excuses a permit, even if it arrives a moment after the permit", arguments: [102.0, 300.0])
    func laterState(at: Double) {
        var history = open()
        history.permit(1, requested: 101, answered: 103)
        history.breaker(.closed, generation: 8, at: at)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test(
        "A report is not an excuse if it arrives long after the permit or after the open time",
        arguments: [700.0, 2010.0])
    func lateState(at: Double) {
        var history = open()
        history.permit(1, requested: at - 600, answered: at - 599)
        history.breaker(.halfOpen, generation: 8, at: at)
        #expect(history.violatedInvariants == [.openBreakers])
    }

    @Test("A half-open report at the end of the open time does not excuse a permit just before it")
    func permitJustBeforeTheEnd() {
        var history = open()
        history.permit(1, requested: 1900, answered: 1950)
        history.breaker(.halfOpen, generation: 8, at: 2001)
        #expect(history.violatedInvariants == [.openBreakers])
    }

    @Test("A report of an older state is not an excuse")
    func olderState() {
        var history = open()
        history.breaker(.closed, generation: 6, at: 101)
        history.permit(1, requested: 102, answered: 103)
        #expect(history.violatedInvariants == [.openBreakers])
    }

    @Test("An open time without an end lasts until the next report")
    func withoutEnd() {
        var history = open(until: nil)
        history.permit(1, requested: 50_000, answered: 50_001)
        #expect(history.violatedInvariants == [.openBreakers])
    }

    @Test("A repeated report extends the open time")
    func repeatedReportExtendsOpenTime() {
        var history = open()
        history.breaker(.open, generation: 7, at: 1500, until: 4000)
        history.permit(1, requested: 3000, answered: 3001)
        #expect(history.violatedInvariants == [.openBreakers])
    }

    @Test(
        "A kill, a wipe and a clock jump erase the known state", arguments: [FaultKind.kill, .redisWipe, .clock])
    func killWipeAndClockJumpEraseKnownState(kind: FaultKind) {
        var history = open()
        history.fault(kind, sidecar: kind == .kill ? 0 : nil, from: 200, to: 300)
        history.permit(1, requested: 400, answered: 401)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test(
        "A Redis that dies loses its last messages, and a paused Redis delivers them later",
        arguments: [(FaultKind.redisRestart, true), (.redisPause, false)])
    func lostMessages(kind: FaultKind, isGood: Bool) {
        var history = open()
        history.fault(kind, from: 200, to: 900)
        history.permit(1, requested: 400, answered: 410)
        #expect(history.violatedInvariants == (isGood ? [] : [.openBreakers]))
    }

    @Test(
        "Repeated resets can lose messages at any time",
        arguments: [(50.0, 0, true), (150.0, 0, true), (250.0, 0, false), (150.0, 1, false)])
    func repeatedResets(from: Double, sidecar: Int, isGood: Bool) {
        var history = open()
        history.fault(.reset, sidecar: sidecar, from: from, to: 900)
        history.permit(1, requested: 200, answered: 210, state: .halfOpen)
        #expect(history.violatedInvariants == (isGood ? [] : [.openBreakers]))
    }

    @Test("A sidecar is checked again after the resets, even if Redis died during them")
    func afterResets() {
        var history = open()
        history.fault(.reset, sidecar: 0, from: 150, to: 900)
        history.fault(.redisRestart, from: 200, to: 300)
        history.breaker(.open, generation: 8, at: 3000, until: 9000)
        history.permit(1, requested: 3500, answered: 3510)
        #expect(history.violatedInvariants == [.openBreakers])
    }

    @Test("A kill of another sidecar erases nothing")
    func otherKilled() {
        var history = open()
        history.fault(.kill, sidecar: 1, from: 200, to: 300)
        history.permit(1, requested: 400, answered: 401)
        #expect(history.violatedInvariants == [.openBreakers])
    }

    @Test(
        "Two states with the same generation are a violation, even if the first is the initial closed state", arguments: [0, 7])
    func sameGeneration(generation: Int64) {
        var history = history()
        if generation > 0 { history.breaker(.closed, generation: generation, at: 50) }
        history.breaker(.open, generation: generation, at: 100, until: 200)
        #expect(history.violatedInvariants == [.openBreakers])
    }

    @Test("Changes with different generations, reported by two sidecars, are correct")
    func differentGenerationsAreCorrect() {
        var history = history()
        for sidecar in 0..<2 {
            history.breaker(.open, sidecar: sidecar, generation: 7, at: 100 + Double(sidecar), until: 200)
            history.breaker(.halfOpen, sidecar: sidecar, generation: 8, at: 201 + Double(sidecar))
            history.breaker(.closed, sidecar: sidecar, generation: 9, at: 301 + Double(sidecar))
        }
        #expect(history.violatedInvariants.isEmpty)
    }
}

import InterlockCore
import Testing

@testable import InterlockJudge

@Suite("Trial permits")
struct TrialTests {
    /// A half-open breaker with three trial permits, of which `count` are granted.
    private func halfOpen(_ count: Int, whenRedisIsDown: OutagePolicyName = .deny) -> SyntheticHistory {
        var history = SyntheticHistory(services: [
            ServiceRules(
                name: "search", limits: [], whenRedisIsDown: whenRedisIsDown, halfOpenPermits: 3,
                permitLifetimeMilliseconds: 10_000)
        ])
        history.breaker(.halfOpen, generation: 8, at: 0)
        for number in 0..<count {
            history.permit(
                PermitNumber(number), sidecar: number % 2, requested: 10 + Double(number), answered: 20, state: .halfOpen)
        }
        return history
    }

    @Test("With three trial permits, a third trial is allowed, and a fourth is a violation", arguments: [(3, true), (4, false)])
    func maximum(count: Int, isGood: Bool) {
        #expect(halfOpen(count).violatedInvariants == (isGood ? [] : [.trials]))
    }

    @Test("A report frees a slot when it is sent")
    func sentReportFreesSlot() {
        var history = halfOpen(3)
        history.report(0, requested: 30)
        history.permit(9, requested: 29, answered: 31, state: .halfOpen)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A permit frees its slot after its lifetime", arguments: [(10_005.0, false), (10_008.1, true), (10_015.0, true)])
    func permitFreesSlotAfterLifetime(requested: Double, isGood: Bool) {
        var history = halfOpen(3)
        history.permit(9, requested: requested, answered: requested + 1, state: .halfOpen)
        #expect(history.violatedInvariants == (isGood ? [] : [.trials]))
    }

    @Test("Trials of the next half-open state are counted separately, even if its report arrives late")
    func nextGeneration() {
        var history = halfOpen(3)
        history.breaker(.open, generation: 9, at: 100, until: 200)
        for number in 10..<13 {
            history.permit(PermitNumber(number), requested: 210, answered: 215 + Double(number), state: .halfOpen)
        }
        history.breaker(.halfOpen, generation: 10, at: 300)
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A failure opens the breaker again, even if the report of the new state has not arrived")
    func failureOpensBreakerAgain() {
        var history = halfOpen(3)
        history.report(0, isOK: false, requested: 30)
        for number in 10..<13 { history.permit(PermitNumber(number), requested: 600, answered: 610, state: .halfOpen) }
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("Permits of a closed breaker are not trials")
    func permitsOfClosedBreakerAreNotTrials() {
        var history = halfOpen(3)
        for number in 10..<20 { history.permit(PermitNumber(number), requested: 600, answered: 610, state: .closed) }
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A wipe and a clock jump reset the count", arguments: [FaultKind.redisWipe, .clock])
    func wipeAndClockJumpResetCount(kind: FaultKind) {
        var history = halfOpen(3)
        history.fault(kind, from: 30, to: 40)
        for number in 10..<13 { history.permit(PermitNumber(number), requested: 600, answered: 610, state: .halfOpen) }
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test(
        "Without Redis, trials are not counted unless the service denies calls",
        arguments: [(OutagePolicyName.local, true), (.deny, false)])
    func withoutRedis(policy: OutagePolicyName, isGood: Bool) {
        var history = halfOpen(8, whenRedisIsDown: policy)
        history.fault(.redisPause, from: 1, to: nil)
        #expect(history.violatedInvariants == (isGood ? [] : [.trials]))
    }

    @Test("A sidecar grants its own trials while the fleet's breaker may be closed")
    func ownTrials() {
        var history = SyntheticHistory(services: [
            ServiceRules(
                name: "search", limits: [], whenRedisIsDown: .deny, halfOpenPermits: 1,
                permitLifetimeMilliseconds: 10_000)
        ])
        history.fault(.redisPause, from: 1, to: nil)
        for sidecar in 0..<2 {
            history.permit(PermitNumber(sidecar), sidecar: sidecar, requested: 10, answered: 20, state: .halfOpen)
        }
        #expect(history.violatedInvariants.isEmpty)
    }

    @Test("A wipe also erases the state of the fleet's breaker")
    func forgottenState() {
        var history = halfOpen(0)
        history.fault(.redisWipe, from: 30, to: 40)
        history.fault(.redisPause, from: 50, to: nil)
        for number in 10..<14 {
            history.permit(PermitNumber(number), sidecar: number % 4, requested: 600, answered: 610, state: .halfOpen)
        }
        #expect(history.violatedInvariants.isEmpty)
    }
}

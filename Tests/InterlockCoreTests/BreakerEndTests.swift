import InterlockCore
import Testing

/// The ends of open periods and forced states, as a sidecar's copy observes them while the Redis clock jumps.
@Suite("A sidecar's copy of a breaker: ends")
struct BreakerEndTests {
    private let start = Instant(nanoseconds: 10_000_000_000)

    private func after(_ milliseconds: Int64) -> Instant { start.advanced(byMilliseconds: milliseconds) }

    private func open(until: Int64, since: Int64 = 1000, cause: BreakerCause = .failures) -> BreakerSnapshot {
        BreakerSnapshot(state: .open, generation: 1) {
            ($0.cause, $0.sinceMilliseconds, $0.untilMilliseconds) = (cause.rawValue, since, until)
        }
    }

    /// Returns a breaker that this sidecar opened for a minute when the Redis clock showed 1000 ms.
    private func opened(_ cause: BreakerCause = .failures) -> Breaker {
        var breaker = Breaker(settings: BreakerSettings())
        breaker.apply(open(until: 61_000, cause: cause), redisTimeMilliseconds: 1000, sentAt: start, receivedAt: start)
        return breaker
    }

    @Test(
        "A jump of the Redis clock does not move a measured end, and the stored end is corrected",
        arguments: [40_000, -30_000] as [Int64])
    func clockJumpKeepsMeasuredEnd(step: Int64) {
        var breaker = opened()
        let end = breaker.openUntil
        breaker.apply(open(until: 61_000), redisTimeMilliseconds: 6000 + step, sentAt: after(5000), receivedAt: after(5000))
        #expect(breaker.openUntil == end)
        let needsCorrection = breaker.hasCorrection
        #expect(needsCorrection)
        #expect(breaker.ends(now: after(5000)).open?.number == 61_000)
        #expect(breaker.ends(now: after(5000)).open?.correction == 61_000 + step)
        // Redis has adopted the correction.
        breaker.apply(
            open(until: 61_000 + step), redisTimeMilliseconds: 7000 + step, sentAt: after(6000), receivedAt: after(6000))
        let stillNeedsCorrection = breaker.hasCorrection
        #expect(!stillNeedsCorrection)
        #expect(breaker.openUntil == end)
        #expect(breaker.ends(now: after(60_002)).open?.isOver == true)
    }

    @Test("Slow answers and messages do not show that the clock has jumped")
    func lateAnswersShowNoClockJump() {
        var breaker = opened()
        breaker.apply(open(until: 61_000), redisTimeMilliseconds: 9000, sentAt: after(5000), receivedAt: after(13_000))
        let afterSlowAnswer = breaker.hasCorrection
        #expect(!afterSlowAnswer)
        breaker.apply(open(until: 61_000), redisTimeMilliseconds: 90_000, receivedAt: after(6000))
        let afterMessage = breaker.hasCorrection
        #expect(!afterMessage)
    }

    @Test("A sidecar that did not measure the start of a state does not correct its end", arguments: [false, true])
    func unmeasuredEndIsNotCorrected(isFound: Bool) {
        var breaker = Breaker(settings: BreakerSettings())
        breaker.apply(
            open(until: 61_000), redisTimeMilliseconds: isFound ? 5000 : 1000, sentAt: isFound ? start : nil, receivedAt: start)
        breaker.apply(open(until: 61_000), redisTimeMilliseconds: 45_000, sentAt: after(5000), receivedAt: after(5000))
        let isCorrected = breaker.hasCorrection
        #expect(!isCorrected)
        // Another sidecar corrects the end.
        breaker.apply(open(until: 101_000), redisTimeMilliseconds: 46_000, sentAt: after(6000), receivedAt: after(6000))
        #expect(breaker.openUntil == after(61_001))
    }

    @Test("A sidecar that did not see a state begin ignores its end for some seconds, at most for the state's duration")
    func foundStateIgnoresItsEndBriefly() {
        var breaker = Breaker(settings: BreakerSettings())
        breaker.apply(open(until: 61_000), redisTimeMilliseconds: 500_000, sentAt: start, receivedAt: start)
        #expect(breaker.openUntil == after(7000))
        var brief = Breaker(settings: BreakerSettings())
        brief.apply(open(until: 3000), redisTimeMilliseconds: 500_000, sentAt: start, receivedAt: start)
        #expect(brief.openUntil == after(2000))
    }

    @Test("A failed probe postpones the end even after the Redis clock was set back")
    func failedProbePostponesEndDespiteClockJump() {
        var breaker = opened(.outage)
        breaker.apply(
            open(until: 41_000, cause: .outage), redisTimeMilliseconds: 1000, sentAt: after(30_000), receivedAt: after(30_000))
        #expect(breaker.openUntil == after(70_001))
        #expect(breaker.actingState(now: after(65_000)) == .open)
    }

    @Test("A forced state ends by the sidecar's clock", arguments: [3_600_000, -300_000] as [Int64])
    func forcedStateEndsByLocalClock(step: Int64) {
        var breaker = Breaker(settings: BreakerSettings())
        let forced = BreakerSnapshot(state: .open, generation: 1) {
            ($0.sinceMilliseconds, $0.forced, $0.forcedUntilMilliseconds) = (1000, .open, 601_000)
        }
        breaker.apply(forced, redisTimeMilliseconds: 1000, sentAt: start, receivedAt: start)
        breaker.apply(forced, redisTimeMilliseconds: 6000 + step, sentAt: after(5000), receivedAt: after(5000))
        #expect(breaker.forced(now: after(599_000)) == .open)
        #expect(breaker.ends(now: after(599_000)).forced?.isOver == false)
        #expect(breaker.forced(now: after(600_002)) == nil)
        #expect(breaker.ends(now: after(600_002)).forced?.isOver == true)
        #expect(breaker.ends(now: after(600_002)).forced?.correction == 601_000 + step)
    }
}

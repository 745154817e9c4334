import InterlockCore
import Testing

@Suite("A sidecar's copy of a breaker")
struct BreakerTests {
    private let now = Instant(nanoseconds: 10_000_000_000)
    private let settings = BreakerSettings(failureRate: 0.5, slowCall: .milliseconds(100), minimumCalls: 4)

    private func snapshot(
        _ state: BreakerSnapshot.State, generation: Int64, until: Int64 = 0, forced: BreakerSnapshot.Forced? = nil
    ) -> BreakerSnapshot {
        BreakerSnapshot(state: state, cause: "failures", untilMilliseconds: until, generation: generation, forced: forced)
    }

    @Test("each state admits, refuses or asks for a trial")
    func admission() {
        var breaker = Breaker(settings: settings)
        #expect(breaker.admission(now: now) == .allow)
        breaker.apply(snapshot(.open, generation: 1, until: 6000), redisTime: 1000, receivedAt: now)
        #expect(breaker.admission(now: now) == .refuse(retryAfter: 5001))
        #expect(breaker.actingState(now: now) == .open)
        let after = now.advanced(byMilliseconds: 5001)
        #expect(breaker.admission(now: after) == .askForTrial)
        #expect(breaker.actingState(now: after) == .halfOpen)
        breaker.apply(snapshot(.halfOpen, generation: 2), redisTime: 6001, receivedAt: after)
        #expect(breaker.admission(now: after) == .askForTrial)
        breaker.trialsAreTaken(now: after, forMilliseconds: 100)
        #expect(breaker.admission(now: after) == .refuse(retryAfter: 100))
        #expect(breaker.admission(now: after.advanced(byMilliseconds: 100)) == .askForTrial)
        breaker.apply(snapshot(.closed, generation: 3), redisTime: 6100, receivedAt: after)
        #expect(breaker.admission(now: after) == .allow)
    }

    @Test(
        "a forced state stands above all others",
        arguments: [
            (BreakerSnapshot.Forced.open, Breaker.Admission.refuse(retryAfter: Breaker.forcedRetryMilliseconds)),
            (.closed, .allow), (.disabled, .allow),
        ])
    func forced(state: BreakerSnapshot.Forced, expected: Breaker.Admission) {
        var breaker = Breaker(settings: settings)
        for underlying in BreakerSnapshot.State.allCases {
            breaker.apply(
                snapshot(underlying, generation: breaker.snapshot.generation + 1, until: 9000, forced: state), redisTime: 0,
                receivedAt: now)
            #expect(breaker.admission(now: now) == expected)
        }
    }

    @Test("the copy only ever moves to a higher generation")
    func generations() {
        var breaker = Breaker(settings: settings)
        do {
            let result = breaker.apply(snapshot(.open, generation: 5, until: 100), redisTime: 0, receivedAt: now)
            #expect(result)
        }
        do {
            let result = breaker.apply(snapshot(.closed, generation: 4), redisTime: 0, receivedAt: now)
            #expect(!result)
        }
        do {
            let result = breaker.apply(snapshot(.open, generation: 5, until: 100), redisTime: 0, receivedAt: now)
            #expect(!result)
        }
        #expect(breaker.snapshot.state == .open)
    }

    @Test("outcomes of another generation, ignored ones and those of a breaker that is not closed do not count")
    func outcomesThatDoNotCount() {
        var breaker = Breaker(settings: settings)
        #expect(breaker.record(.error, latencyMilliseconds: nil, generation: 7, now: now) == .none)
        #expect(breaker.record(.ignore, latencyMilliseconds: nil, generation: 0, now: now) == .none)
        breaker.apply(snapshot(.open, generation: 1, until: 100), redisTime: 0, receivedAt: now)
        #expect(breaker.record(.error, latencyMilliseconds: nil, generation: 1, now: now) == .none)
        #expect(breaker.unsent.isEmpty)
    }

    @Test("sums are sent at most ten times a second, but a failure that would trip at once")
    func reporting() {
        var breaker = Breaker(settings: settings)
        #expect(breaker.record(.ok, latencyMilliseconds: nil, generation: 0, now: now) == .sendAt(now))
        #expect(breaker.record(.ok, latencyMilliseconds: nil, generation: 0, now: now) == .none)
        #expect(breaker.takeUnsent(now: now) == OutcomeSums(calls: 2))
        #expect(breaker.takeUnsent(now: now) == nil)
        let next = now.advanced(byMilliseconds: Breaker.reportIntervalMilliseconds)
        #expect(breaker.record(.error, latencyMilliseconds: nil, generation: 0, now: now) == .sendAt(next))
        for _ in 0..<2 { _ = breaker.record(.error, latencyMilliseconds: nil, generation: 0, now: now) }
        #expect(breaker.record(.error, latencyMilliseconds: nil, generation: 0, now: now) == .sendNow)
    }

    @Test("what the fleet has seen counts towards sending at once")
    func fleetSums() {
        var breaker = Breaker(settings: settings)
        var known = snapshot(.closed, generation: 1)
        known.calls = 3
        known.failureRate = 0.66
        breaker.apply(known, redisTime: 0, receivedAt: now)
        #expect(breaker.record(.error, latencyMilliseconds: nil, generation: 1, now: now) == .sendNow)
    }

    @Test(
        "the rates trip from the minimum of calls on, failures and slow calls apart",
        arguments: [
            (OutcomeSums(calls: 3, failures: 3), false), (OutcomeSums(calls: 4, failures: 1), false),
            (OutcomeSums(calls: 4, failures: 2), true), (OutcomeSums(calls: 10, slow: 8), true),
            (OutcomeSums(calls: 10, slow: 7), false), (OutcomeSums(), false),
        ])
    func tripRule(sums: OutcomeSums, trips: Bool) {
        #expect(sums.trips(settings) == trips)
    }

    @Test("without slow_call no duration counts")
    func noSlowCalls() {
        let settings = BreakerSettings(minimumCalls: 1)
        var breaker = Breaker(settings: settings)
        _ = breaker.record(.ok, latencyMilliseconds: 1_000_000, generation: 0, now: now)
        #expect(breaker.unsent == OutcomeSums(calls: 1))
        #expect(!OutcomeSums(calls: 10, slow: 10).trips(settings))
    }

    @Test("while Redis is away a sidecar trips for itself, and takes the fleet's word when it is back")
    func alone() {
        var breaker = Breaker(settings: settings)
        for _ in 0..<4 { _ = breaker.record(.error, latencyMilliseconds: nil, generation: 0, now: now) }
        do {
            let result = breaker.judgeLocally(now: now)
            #expect(result)
        }
        #expect(breaker.admission(now: now) == .refuse(retryAfter: 5000))
        #expect(breaker.actingState(now: now) == .open)
        do {
            let result = breaker.judgeLocally(now: now)
            #expect(!result)
        }
        breaker.apply(snapshot(.closed, generation: 9), redisTime: 0, receivedAt: now)
        #expect(breaker.admission(now: now) == .allow)
    }

    @Test("sums that certainly never arrived are kept")
    func putBack() throws {
        var breaker = Breaker(settings: settings)
        _ = breaker.record(.error, latencyMilliseconds: nil, generation: 0, now: now)
        let taken = breaker.takeUnsent(now: now)
        let sums = try #require(taken)
        breaker.putBack(sums)
        #expect(breaker.unsent == sums)
    }
}

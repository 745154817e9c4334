import InterlockCore
import Testing

@Suite("A sidecar's copy of a breaker")
struct BreakerDecisionTests {
    private let now = Instant(nanoseconds: 10_000_000_000)
    private let settings = BreakerSettings(failureRate: 0.5, slowCall: .milliseconds(100), minimumCalls: 4)

    private func snapshot(
        _ state: BreakerSnapshot.State, generation: Int64, until: Int64 = 0, forced: BreakerSnapshot.Forced? = nil
    ) -> BreakerSnapshot {
        BreakerSnapshot(state: state, generation: generation) {
            ($0.cause, $0.untilMilliseconds, $0.forced) = ("failures", until, forced)
        }
    }

    @Test("Each state admits calls, refuses them or requests a trial")
    func stateAdmitsRefusesOrRequestsTrial() {
        var breaker = Breaker(settings: settings)
        #expect(breaker.admission(now: now) == .allow)
        breaker.apply(snapshot(.open, generation: 1, until: 6000), redisTimeMilliseconds: 1000, receivedAt: now)
        #expect(breaker.admission(now: now) == .refuse(retryAfterMilliseconds: 5001))
        #expect(breaker.actingState(now: now) == .open)
        let after = now.advanced(byMilliseconds: 5001)
        #expect(breaker.admission(now: after) == .requestTrial)
        #expect(breaker.actingState(now: after) == .halfOpen)
        breaker.apply(snapshot(.halfOpen, generation: 2), redisTimeMilliseconds: 6001, receivedAt: after)
        #expect(breaker.admission(now: after) == .requestTrial)
        breaker.markTrialsExhausted(now: after, forMilliseconds: 100)
        #expect(breaker.admission(now: after) == .refuse(retryAfterMilliseconds: 100))
        #expect(breaker.admission(now: after.advanced(byMilliseconds: 100)) == .requestTrial)
        breaker.apply(snapshot(.closed, generation: 3), redisTimeMilliseconds: 6100, receivedAt: after)
        #expect(breaker.admission(now: after) == .allow)
    }

    @Test(
        "A forced state overrides every other state",
        arguments: [
            (
                BreakerSnapshot.Forced.open,
                Breaker.Admission.refuse(retryAfterMilliseconds: Breaker.forcedRetryMilliseconds)
            ),
            (.closed, .allow), (.disabled, .allow),
        ])
    func forcedStateOverridesEveryOtherState(state: BreakerSnapshot.Forced, expected: Breaker.Admission) {
        var breaker = Breaker(settings: settings)
        for underlying in BreakerSnapshot.State.allCases {
            breaker.apply(
                snapshot(underlying, generation: breaker.snapshot.generation + 1, until: 9000, forced: state),
                redisTimeMilliseconds: 0,
                receivedAt: now)
            #expect(breaker.admission(now: now) == expected)
        }
    }

    @Test("The copy only moves to higher generations")
    func copyOnlyMovesToHigherGenerations() {
        var breaker = Breaker(settings: settings)
        do {
            let isNewGeneration = breaker.apply(
                snapshot(.open, generation: 5, until: 100), redisTimeMilliseconds: 0, receivedAt: now)
            #expect(isNewGeneration)
        }
        do {
            let isNewGeneration = breaker.apply(snapshot(.closed, generation: 4), redisTimeMilliseconds: 0, receivedAt: now)
            #expect(!isNewGeneration)
        }
        do {
            let isNewGeneration = breaker.apply(
                snapshot(.open, generation: 5, until: 100), redisTimeMilliseconds: 0, receivedAt: now)
            #expect(!isNewGeneration)
        }
        #expect(breaker.snapshot.state == .open)
    }

    @Test("A later end of the same open time is adopted, and an earlier one is ignored")
    func laterEnd() {
        var breaker = Breaker(settings: settings)
        breaker.apply(snapshot(.open, generation: 1, until: 2000), redisTimeMilliseconds: 1000, receivedAt: now)
        breaker.apply(snapshot(.open, generation: 1, until: 5000), redisTimeMilliseconds: 1500, receivedAt: now)
        #expect(breaker.admission(now: now) == .refuse(retryAfterMilliseconds: 3501))
        breaker.apply(snapshot(.open, generation: 1, until: 2000), redisTimeMilliseconds: 1600, receivedAt: now)
        #expect(breaker.admission(now: now) == .refuse(retryAfterMilliseconds: 3501))
    }

    @Test("A forced state ends at its time even if Redis sends nothing")
    func forcedEnd() {
        var breaker = Breaker(settings: settings)
        var forced = snapshot(.open, generation: 1, forced: .open)
        forced.forcedUntilMilliseconds = 3000
        breaker.apply(forced, redisTimeMilliseconds: 1000, receivedAt: now)
        #expect(breaker.admission(now: now) == .refuse(retryAfterMilliseconds: 2001))
        let after = now.advanced(byMilliseconds: 2001)
        #expect(breaker.admission(now: after) == .allow)
        #expect(breaker.actingState(now: after) == .closed)
    }

    @Test("After a forced state has ended, the sidecar trips its breaker again while Redis is unreachable")
    func tripsAfterForced() {
        var breaker = Breaker(settings: BreakerSettings(minimumCalls: 2))
        breaker.apply(
            BreakerSnapshot(generation: 1) { ($0.forced, $0.forcedUntilMilliseconds) = (.disabled, 100) },
            redisTimeMilliseconds: 0,
            receivedAt: now)
        let later = now.advanced(byMilliseconds: 200)
        for _ in 0..<2 { _ = breaker.record(.error, latencyMilliseconds: nil, generation: 1, now: later) }
        let cause = breaker.evaluateLocally(now: later)
        #expect(cause == .failures)
        #expect(breaker.actingState(now: later) == .open)
        guard case .refuse = breaker.admission(now: later) else {
            Issue.record("the breaker lets calls through")
            return
        }
    }

    @Test("A breaker opened by a limit does not need a trial, because the limit itself is the trial")
    func openByLimit() {
        var breaker = Breaker(settings: settings)
        var byLimit = snapshot(.open, generation: 1, until: 2000)
        byLimit.cause = BreakerCause.limit.rawValue
        breaker.apply(byLimit, redisTimeMilliseconds: 1000, receivedAt: now)
        #expect(breaker.admission(now: now) == .refuse(retryAfterMilliseconds: 1001))
        #expect(breaker.admission(now: now.advanced(byMilliseconds: 1001)) == .allow)
        #expect(breaker.actingState(now: now.advanced(byMilliseconds: 1001)) == .halfOpen)
    }

    @Test("With metrics only, nothing but a forced state refuses calls")
    func onlyForcedStateRefusesWithMetricsOnly() {
        var only = settings
        only.isMetricsOnly = true
        var breaker = Breaker(settings: only)
        breaker.apply(snapshot(.open, generation: 1, until: 9000), redisTimeMilliseconds: 0, receivedAt: now)
        #expect(breaker.admission(now: now) == .allow)
        breaker.apply(snapshot(.closed, generation: 2), redisTimeMilliseconds: 0, receivedAt: now)
        for _ in 0..<8 { _ = breaker.record(.error, latencyMilliseconds: nil, generation: 2, now: now) }
        let localCause = breaker.evaluateLocally(now: now)
        #expect(localCause == nil)
        #expect(breaker.actingState(now: now) == .closed)
        breaker.apply(snapshot(.open, generation: 3, forced: .open), redisTimeMilliseconds: 0, receivedAt: now)
        #expect(breaker.actingState(now: now) == .open)
    }

    @Test("A sidecar trips its breaker while Redis is unreachable, and follows the fleet once Redis is back")
    func tripsLocally() {
        var breaker = Breaker(settings: settings)
        for _ in 0..<4 { _ = breaker.record(.error, latencyMilliseconds: nil, generation: 0, now: now) }
        do {
            let cause = breaker.evaluateLocally(now: now)
            #expect(cause == .failures)
        }
        #expect(breaker.admission(now: now) == .refuse(retryAfterMilliseconds: 5000))
        #expect(breaker.actingState(now: now) == .open)
        do {
            let cause = breaker.evaluateLocally(now: now)
            #expect(cause == nil)
        }
        breaker.apply(snapshot(.closed, generation: 9), redisTimeMilliseconds: 0, receivedAt: now)
        #expect(breaker.admission(now: now) == .allow)
    }

    @Test("A local trip ends at its time")
    func localTripEndsOnTime() {
        var breaker = Breaker(settings: settings)
        for _ in 0..<4 { _ = breaker.record(.error, latencyMilliseconds: nil, generation: 0, now: now) }
        _ = breaker.evaluateLocally(now: now)
        let after = now.advanced(byMilliseconds: 5000)
        _ = breaker.record(.error, latencyMilliseconds: nil, generation: 0, now: after)
        let cause = breaker.evaluateLocally(now: after)
        #expect(cause == nil)
        #expect(breaker.admission(now: after) == .allow)
    }

    @Test("A failure in half-open without a trial permit opens the local breaker while Redis is unreachable")
    func failsHalfOpenLocally() {
        var breaker = Breaker(settings: settings)
        breaker.apply(snapshot(.halfOpen, generation: 1), redisTimeMilliseconds: 0, receivedAt: now)
        _ = breaker.record(.ok, latencyMilliseconds: nil, generation: 1, now: now)
        #expect(breaker.actingState(now: now) == .halfOpen)
        _ = breaker.record(.error, latencyMilliseconds: nil, generation: 1, now: now)
        #expect(breaker.actingState(now: now) == .open)
    }

    @Test("A local outage ends, and other causes remain")
    func localOutageLeavesOtherCauses() {
        var breaker = Breaker(settings: settings)
        do {
            let isNew = breaker.tripLocally(.outage, forMilliseconds: 1000, now: now)
            #expect(isNew)
        }
        breaker.recoverLocally(from: .limit)
        #expect(breaker.actingState(now: now) == .open)
        breaker.recoverLocally(from: .outage)
        #expect(breaker.actingState(now: now) == .closed)
    }

    @Test("With several reporters required, a sidecar trips its own breaker and votes once")
    func votes() {
        var withReporters = settings
        withReporters.reporters = 2
        var breaker = Breaker(settings: withReporters)
        // The fleet's outcomes do not count.
        breaker.apply(
            BreakerSnapshot(generation: 1) { ($0.failureRate, $0.calls) = (1, 100) }, redisTimeMilliseconds: 0, receivedAt: now)
        var actions: [Breaker.ReportAction] = []
        for _ in 0..<6 { actions.append(breaker.record(.error, latencyMilliseconds: nil, generation: 1, now: now)) }
        #expect(actions == [.sendAt(now), .none, .none, .vote(.failures), .none, .none])
        #expect(breaker.actingState(now: now) == .open)
        #expect(breaker.snapshot.state == .closed)
    }
}

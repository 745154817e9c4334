import InterlockCore
import Testing

@Suite("When outcomes are reported")
struct OutcomeReportTests {
    private let now = Instant(nanoseconds: 10_000_000_000)
    private let settings = BreakerSettings(failureRate: 0.5, slowCall: .milliseconds(100), minimumCalls: 4)

    private func record(_ breaker: inout Breaker, _ outcome: Outcome, at instant: Instant) -> Breaker.ReportAction {
        breaker.record(outcome, latencyMilliseconds: nil, generation: breaker.snapshot.generation, now: instant)
    }

    private func end(_ breaker: inout Breaker, at instant: Instant) -> Breaker.ReportAction {
        breaker.reportEnded(lost: nil, generation: breaker.snapshot.generation, now: instant)
    }

    @Test("Sums are sent at most every 100 ms")
    func sumsAreSentAtMostEvery100Ms() {
        var breaker = Breaker(settings: settings)
        let first = record(&breaker, .ok, at: now)
        #expect(first == .sendAt(now))
        let second = record(&breaker, .ok, at: now)
        #expect(second == .none)
        let due = breaker.scheduledReportDue(now: now)
        #expect(due == .sendNow)
        let sums = breaker.takeUnsent(now: now)
        #expect(sums == OutcomeSums(calls: 2))
        let whileInFlight = record(&breaker, .ok, at: now)
        #expect(whileInFlight == .none)
        let next = now.advanced(byMilliseconds: Breaker.reportIntervalMilliseconds)
        let afterwards = end(&breaker, at: now)
        #expect(afterwards == .sendAt(next))
    }

    @Test("A failure that would trip the breaker is sent immediately, even right after a report")
    func atOnce() {
        var breaker = Breaker(settings: settings)
        _ = record(&breaker, .error, at: now)
        _ = breaker.takeUnsent(now: now)
        _ = end(&breaker, at: now)
        breaker.apply(BreakerSnapshot { ($0.failureRate, $0.calls) = (1, 1) }, redisTimeMilliseconds: 0, receivedAt: now)
        let actions = (0..<3).map { _ in record(&breaker, .error, at: now) }
        #expect(actions.last == .sendNow)
    }

    @Test("A failure that would trip the breaker together with sums in flight is sent as soon as Redis has answered those")
    func afterOneInFlight() {
        var consecutive = settings
        consecutive.consecutiveFailures = 3
        consecutive.minimumCalls = 1000
        var breaker = Breaker(settings: consecutive)
        _ = record(&breaker, .error, at: now)
        _ = breaker.takeUnsent(now: now)
        let actions = (0..<2).map { _ in record(&breaker, .error, at: now) }
        #expect(actions == [.none, .sendNext])
        breaker.apply(
            BreakerSnapshot { ($0.failureRate, $0.calls, $0.consecutive) = (1, 1, 1) }, redisTimeMilliseconds: 0, receivedAt: now)
        let afterwards = end(&breaker, at: now)
        #expect(afterwards == .sendNow)
    }

    @Test("The fleet's rates and consecutive failures decide whether a failure is sent immediately")
    func fleetSums() {
        var consecutive = settings
        consecutive.consecutiveFailures = 5
        consecutive.minimumCalls = 1000
        for (settings, known) in [
            (settings, BreakerSnapshot(generation: 1) { ($0.failureRate, $0.calls) = (0.66, 3) }),
            (consecutive, BreakerSnapshot(generation: 1) { ($0.failureRate, $0.calls, $0.consecutive) = (0.66, 3, 4) }),
        ] {
            var breaker = Breaker(settings: settings)
            breaker.apply(known, redisTimeMilliseconds: 0, receivedAt: now)
            let action = record(&breaker, .error, at: now)
            #expect(action == .sendNow)
        }
    }

    @Test("Failures that only seem to trip the breaker are sent no more often than other outcomes")
    func noStorm() {
        var breaker = Breaker(settings: settings)
        // The sidecar rounds to one half; Redis does not round and does not trip.
        breaker.apply(
            BreakerSnapshot(generation: 1) { ($0.failureRate, $0.calls) = (0.5, 100) }, redisTimeMilliseconds: 0, receivedAt: now)
        var reports = 0
        var due: Instant?
        // 50,000 outcomes in a second.
        for index in 0..<50_000 {
            let instant = Instant(nanoseconds: now.nanoseconds + Int64(index) * 20_000)
            var action = Breaker.ReportAction.none
            if let planned = due, planned <= instant {
                due = nil
                action = breaker.scheduledReportDue(now: instant)
            }
            if action == .none { action = record(&breaker, index.isMultiple(of: 2) ? .error : .ok, at: instant) }
            if case .sendAt(let planned) = action { due = planned }
            guard action == .sendNow, breaker.takeUnsent(now: instant) != nil else { continue }
            reports += 1
            if case .sendAt(let planned) = end(&breaker, at: instant) { due = planned }
        }
        #expect(reports <= 12)
        #expect(reports >= 9)
    }

    @Test("Sums that are known not to have arrived are kept in order")
    func putBack() {
        var breaker = Breaker(settings: settings)
        _ = record(&breaker, .error, at: now)
        let sums = breaker.takeUnsent(now: now)
        _ = record(&breaker, .ok, at: now)
        _ = record(&breaker, .error, at: now)
        let action = breaker.reportEnded(lost: sums, generation: 0, now: now)
        #expect(action == .none)
        let everything = breaker.takeUnsent(now: now)
        #expect(everything == OutcomeSums(calls: 3, failures: 2, trailingFailures: 1))
    }

    @Test("Sums of an old generation are not restored")
    func putBackLate() {
        var breaker = Breaker(settings: settings)
        _ = record(&breaker, .error, at: now)
        let sums = breaker.takeUnsent(now: now)
        breaker.apply(BreakerSnapshot(generation: 1), redisTimeMilliseconds: 0, receivedAt: now)
        _ = breaker.reportEnded(lost: sums, generation: 0, now: now)
        let unsentSums = breaker.takeUnsent(now: now)
        #expect(unsentSums == nil)
    }

    @Test("After a long delay only as much is sent as the window still holds")
    func heldUp() {
        var breaker = Breaker(settings: settings)
        for _ in 0..<100 { _ = record(&breaker, .error, at: now) }
        let later = now.advanced(byMilliseconds: 60_000)
        _ = record(&breaker, .ok, at: later)
        let sums = breaker.takeUnsent(now: later)
        #expect(sums == OutcomeSums(calls: 1))
    }

    @Test("Reported failures in a row are not reported again, even if the window has dropped some")
    func failuresInARowOnce() {
        var breaker = Breaker(settings: settings)
        for _ in 0..<3 { _ = record(&breaker, .error, at: now) }
        _ = breaker.takeUnsent(now: now)
        _ = end(&breaker, at: now)
        _ = record(&breaker, .error, at: now)
        let later = now.advanced(byMilliseconds: 60_000)
        _ = record(&breaker, .error, at: later)
        let sums = breaker.takeUnsent(now: later)
        #expect(sums == OutcomeSums(calls: 1, failures: 1, trailingFailures: 2))
    }

    @Test("A breaker accepts impossible numbers from Redis")
    func impossibleNumbers() {
        var breaker = Breaker(settings: settings)
        breaker.apply(
            BreakerSnapshot(state: .open, generation: 1) { $0.untilMilliseconds = .max }, redisTimeMilliseconds: .min,
            receivedAt: now)
        #expect(breaker.openUntil == .distantFuture)
        breaker.apply(
            BreakerSnapshot(generation: 2) { ($0.failureRate, $0.calls) = (.nan, .max) }, redisTimeMilliseconds: 0,
            receivedAt: now)
        let action = record(&breaker, .error, at: now)
        #expect(action != .none)
    }

    @Test("Outcomes of another generation, ignored outcomes and those of a breaker that is not closed are not counted")
    func ignoredOutcomesAreNotCounted() {
        var breaker = Breaker(settings: settings)
        let ofAnother = breaker.record(.error, latencyMilliseconds: nil, generation: 7, now: now)
        let ignored = breaker.record(.ignore, latencyMilliseconds: nil, generation: 0, now: now)
        #expect(ofAnother == .none)
        #expect(ignored == .none)
        breaker.apply(
            BreakerSnapshot(state: .open, generation: 1) { $0.untilMilliseconds = 100 }, redisTimeMilliseconds: 0, receivedAt: now
        )
        let whileOpen = breaker.record(.ok, latencyMilliseconds: nil, generation: 1, now: now)
        #expect(whileOpen == .none)
        let sums = breaker.takeUnsent(now: now)
        #expect(sums == nil)
    }

    @Test("Without slow_call durations are not counted")
    func noSlowCalls() {
        var breaker = Breaker(settings: BreakerSettings(minimumCalls: 1))
        _ = breaker.record(.ok, latencyMilliseconds: 1_000_000, generation: 0, now: now)
        let sums = breaker.takeUnsent(now: now)
        #expect(sums == OutcomeSums(calls: 1))
    }
}

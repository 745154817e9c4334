import InterlockCore
import Testing

@Suite("Waiting for a limit")
struct LimitWaitingTests {
    private let start = Instant(nanoseconds: 1_000_000_000)

    private func limiter(_ algorithm: LimitAlgorithm, limit: Int64 = 10, maximumWaiting: Int = 100) -> ServiceLimiter {
        let definition = LimitDefinition(name: "1s", limit: limit, window: .seconds(1), algorithm: algorithm)
        return ServiceLimiter(definitions: [definition], maximumWaiting: maximumWaiting)
    }

    private func evaluate(
        _ limiter: inout ServiceLimiter, _ counters: inout LocalCounters, at now: Instant
    ) -> [ServiceLimiter.CallResolution] {
        guard let batch = limiter.nextBatch(now: now) else { return [] }
        var resolutions: [ServiceLimiter.CallResolution] = []
        limiter.apply(counters.evaluate(batch.limits, now: now), of: batch, sentAt: now, now: now, into: &resolutions)
        return resolutions
    }

    /// Exhausts the limit and has one more call refused, so that its retry time is known.
    private func exhaust(_ limiter: inout ServiceLimiter, _ counters: inout LocalCounters, calls: Int) {
        for id in 0..<calls { _ = limiter.admit(LimitRequest(id: id), now: start) }
        _ = limiter.admit(LimitRequest(id: calls), now: start)
        _ = evaluate(&limiter, &counters, at: start)
    }

    private func answer(_ admission: ServiceLimiter.Admission) -> CallDecision? {
        if case .decided(let decision) = admission { decision } else { nil }
    }

    @Test(
        "A call that cannot be granted in time behind all waiting calls is refused immediately with its retry time",
        arguments: [
            // Ten waiting calls fill a window: the eleventh and later ones wait for the next.
            (.fixed, 10, 2001), (.sliding, 10, 2001), (.fixed, 9, nil), (.fixed, 25, 3001),
            // One call every 100 ms.
            (.gcra(burst: 0), 10, nil), (.gcra(burst: 0), 20, 2100),
        ] as [(LimitAlgorithm, Int, Int64?)])
    func hopeless(algorithm: LimitAlgorithm, ahead: Int, expected: Int64?) {
        var limiter = limiter(algorithm)
        var counters = LocalCounters()
        exhaust(&limiter, &counters, calls: Int(algorithm == .gcra(burst: 0) ? 1 : 10))
        for id in 100..<(100 + ahead) {
            #expect(limiter.admit(LimitRequest(id: id, deadline: .distantFuture), now: start).isWaiting)
        }
        let admission = limiter.admit(LimitRequest(id: 1, deadline: start.advanced(byMilliseconds: 1900)), now: start)
        guard let expected else {
            #expect(admission.isWaiting)
            return
        }
        let retryAfterMilliseconds = answer(admission)?.retryAfterMilliseconds ?? 0
        // A sliding window ends a microsecond late, a fixed window's key a millisecond late.
        #expect((expected - 1...expected + 1).contains(retryAfterMilliseconds))
    }

    @Test(
        "The retry time of a call that does not wait is later than the turns of the waiting calls",
        arguments: [.fixed, .sliding] as [LimitAlgorithm])
    func retryTimeBehindWaiters(algorithm: LimitAlgorithm) {
        var limiter = limiter(algorithm)
        var counters = LocalCounters()
        exhaust(&limiter, &counters, calls: 10)
        for id in 100..<115 { _ = limiter.admit(LimitRequest(id: id, deadline: .distantFuture), now: start) }
        #expect(answer(limiter.admit(LimitRequest(id: 1), now: start))?.retryAfterMilliseconds ?? 0 >= 2000)
    }

    @Test("A call that arrived while another was refused is queued behind it even if it would fit")
    func arrivedMeanwhile() {
        var limiter = limiter(.fixed)
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 8), now: start)
        _ = limiter.admit(LimitRequest(id: 1, cost: 5, deadline: .distantFuture), now: start)
        let batch = limiter.nextBatch(now: start)
        _ = limiter.admit(LimitRequest(id: 2, cost: 2), now: start)
        var resolutions: [ServiceLimiter.CallResolution] = []
        if let batch {
            limiter.apply(counters.evaluate(batch.limits, now: start), of: batch, sentAt: start, now: start, into: &resolutions)
        }
        #expect(resolutions.map(\.id) == [0, 2])
        #expect(resolutions.last?.decision.isAllowed == false)
    }

    @Test("In a fleet, waiting calls request part of a window at a time, and new calls stay behind them")
    func parts() {
        var limiter = limiter(.fixed, limit: 80)
        var counters = LocalCounters()
        exhaust(&limiter, &counters, calls: 80)
        for id in 100..<150 { _ = limiter.admit(LimitRequest(id: id, deadline: .distantFuture), now: start) }
        let later = start.advanced(byMilliseconds: 1100)
        _ = limiter.admit(LimitRequest(id: 1), now: later)
        let batch = limiter.nextBatch(now: later, sidecars: 4)
        #expect(batch?.requests.map(\.id) == Array(100..<105))
    }

    @Test("In a single sidecar all waiting calls are sent in one batch")
    func singleSidecar() {
        var limiter = limiter(.fixed, limit: 80)
        var counters = LocalCounters()
        exhaust(&limiter, &counters, calls: 80)
        for id in 100..<150 { _ = limiter.admit(LimitRequest(id: id, deadline: .distantFuture), now: start) }
        let batch = limiter.nextBatch(now: start.advanced(byMilliseconds: 1100), sidecars: 1)
        #expect(batch?.requests.count == 50)
    }

    @Test(
        "A remembered refusal of a sliding or gcra limit applies to the same cost only",
        arguments: [.sliding, .gcra(burst: 9)] as [LimitAlgorithm])
    func rememberedCost(algorithm: LimitAlgorithm) {
        var limiter = limiter(algorithm)
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 8), now: start)
        _ = limiter.admit(LimitRequest(id: 1, cost: 3), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        #expect(answer(limiter.admit(LimitRequest(id: 2, cost: 3), now: start)) != nil)
        #expect(limiter.admit(LimitRequest(id: 3, cost: 4), now: start) == .queued)
    }

    @Test(
        "A call that returns at its retry time is not refused by a remembered refusal",
        arguments: [.fixed, .sliding, .gcra(burst: 2)] as [LimitAlgorithm])
    func rememberedEnd(algorithm: LimitAlgorithm) {
        var limiter = limiter(algorithm, limit: 3)
        var counters = LocalCounters()
        for id in 0..<4 { _ = limiter.admit(LimitRequest(id: id), now: start) }
        let refused = evaluate(&limiter, &counters, at: start).last?.decision.retryAfterMilliseconds ?? 0
        // An answer is never read within the microsecond in which it is made.
        let back = start.advanced(byMilliseconds: refused).advanced(byMicroseconds: 1)
        #expect(limiter.admit(LimitRequest(id: 4), now: back) == .queued)
        #expect(evaluate(&limiter, &counters, at: back).last?.decision.isAllowed == true)
    }

    @Test("A waiting call whose cost a reload makes impossible is refused as never satisfiable")
    func shrunkLimit() {
        var limiter = limiter(.fixed)
        var counters = LocalCounters()
        exhaust(&limiter, &counters, calls: 10)
        _ = limiter.admit(LimitRequest(id: 50, cost: 8, deadline: .distantFuture), now: start)
        let smaller = LimitDefinition(name: "1s", limit: 4, window: .seconds(1))
        limiter.redefine(definitions: [smaller], maximumWaiting: 100)
        let resolutions = evaluate(&limiter, &counters, at: start)
        #expect(resolutions.first?.decision.outcome == .neverSatisfiable)
    }

    @Test("Subjects that look alike but differ in bytes are different subjects")
    func exactSubjects() {
        let perUser = LimitDefinition(name: "user", limit: 1, window: .seconds(1), isPerSubject: true)
        var limiter = ServiceLimiter(definitions: [perUser], maximumWaiting: 0)
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, subject: "caf\u{E9}"), now: start)
        _ = limiter.admit(LimitRequest(id: 1, subject: "cafe\u{301}"), now: start)
        let resolutions = evaluate(&limiter, &counters, at: start)
        #expect(resolutions.map(\.decision.isAllowed) == [true, true])
    }
}

import InterlockCore
import Testing

@Suite("Limits when the first of several calls leaves or does not wait")
struct LimitLeavingTests {
    private let start = Instant(nanoseconds: 1_000_000_000_000)

    private func limiter(_ algorithm: LimitAlgorithm = .fixed, window: Duration = .seconds(1)) -> ServiceLimiter {
        let definition = LimitDefinition(name: "limit", limit: 10, window: window, algorithm: algorithm)
        return ServiceLimiter(definitions: [definition], maximumWaiting: 100)
    }

    private func after(_ milliseconds: Int64) -> Instant { start.advanced(byMilliseconds: milliseconds) }

    private func evaluate(
        _ limiter: inout ServiceLimiter, _ counters: inout LocalCounters, sidecars: Int = 1, at now: Instant
    ) -> [ServiceLimiter.CallResolution] {
        guard let batch = limiter.nextBatch(now: now) else { return [] }
        var resolutions: [ServiceLimiter.CallResolution] = []
        let verdict = counters.evaluate(batch.limits, sidecars: sidecars, now: now)
        limiter.apply(verdict, of: batch, sentAt: now, now: now, into: &resolutions)
        return resolutions
    }

    @Test(
        "A call that cannot be granted in time does not keep others from the remaining capacity",
        arguments: [.fixed, .sliding] as [LimitAlgorithm])
    func hopelessCallLeavesCapacityToOthers(algorithm: LimitAlgorithm) {
        var limiter = limiter(algorithm)
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 5), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        _ = limiter.admit(LimitRequest(id: 1, cost: 10, deadline: after(1)), now: start)
        _ = limiter.admit(LimitRequest(id: 2), now: start)
        _ = limiter.admit(LimitRequest(id: 3, deadline: after(1)), now: start)
        let first = evaluate(&limiter, &counters, at: start)
        #expect(first.map(\.id) == [1])
        let second = evaluate(&limiter, &counters, at: start)
        #expect(second.map(\.id) == [2, 3])
        #expect(second.allSatisfy { $0.decision.isAllowed })
    }

    @Test("When a waiting call of high cost leaves, a smaller one behind it is evaluated immediately")
    func leaver() {
        var limiter = limiter(window: .seconds(86_400))
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 5), now: start)
        _ = limiter.admit(LimitRequest(id: 1, cost: 10, deadline: .distantFuture), now: start)
        _ = limiter.admit(LimitRequest(id: 2, deadline: .distantFuture), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        #expect(limiter.waitingCount == 2)
        let hasLeft = limiter.remove(1)
        #expect(hasLeft)
        let wakeUp = limiter.nextWakeUp(now: start) ?? .distantFuture
        #expect(wakeUp <= start)
        let resolutions = evaluate(&limiter, &counters, at: start)
        #expect(resolutions.map(\.id) == [2])
        #expect(resolutions.allSatisfy { $0.decision.isAllowed })
    }

    @Test("A call whose wait ends gets the answer of a new call behind those that still wait")
    func waitOver() {
        var limiter = limiter()
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 8), now: start)
        _ = limiter.admit(LimitRequest(id: 1, cost: 10, deadline: .distantFuture), now: start)
        _ = limiter.admit(LimitRequest(id: 2, deadline: after(2100)), now: start)
        _ = limiter.admit(LimitRequest(id: 3, cost: 10, deadline: .distantFuture), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        #expect(limiter.waitingCount == 3)
        var resolutions: [ServiceLimiter.CallResolution] = []
        limiter.expire(now: after(2100), into: &resolutions)
        #expect(resolutions.map(\.id) == [2])
        #expect(limiter.admit(LimitRequest(id: 4), now: after(2100)) == resolutions.first.map { .decided($0.decision) })
        #expect(resolutions.first?.decision.remaining == 2)
    }

    @Test("A remembered refusal reports the same local quota as the refusal that it repeats")
    func rememberedQuota() {
        var limiter = limiter()
        var counters = LocalCounters()
        for id in 0..<3 { _ = limiter.admit(LimitRequest(id: id), now: start) }
        let refusal = evaluate(&limiter, &counters, sidecars: 5, at: start).last?.decision
        #expect(refusal?.isAllowed == false)
        #expect(refusal?.limit == 2)
        #expect(limiter.admit(LimitRequest(id: 3), now: start) == refusal.map { .decided($0) })
    }

    @Test("After a refund the retry time is one millisecond")
    func refund() {
        var limiter = limiter()
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 10), now: start)
        _ = limiter.admit(LimitRequest(id: 1, deadline: after(1100)), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        limiter.recordRefund(definitionIndex: 0, subject: nil)
        var resolutions: [ServiceLimiter.CallResolution] = []
        limiter.expire(now: after(1100), into: &resolutions)
        #expect(resolutions.map(\.decision.retryAfterMilliseconds) == [1])
    }

    @Test(
        "A call above this sidecar's local quota is refused immediately, with a retry time that causes no busy loop",
        arguments: [.fixed, .sliding, .gcra(burst: 9)] as [LimitAlgorithm])
    func aboveQuota(algorithm: LimitAlgorithm) {
        var limiter = limiter(algorithm)
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 5, deadline: .distantFuture), now: start)
        _ = limiter.admit(LimitRequest(id: 1), now: start)
        let first = evaluate(&limiter, &counters, sidecars: 4, at: start)
        #expect(first.map(\.id) == [0])
        #expect(first.map(\.decision.retryAfterMilliseconds) == [1000])
        let second = evaluate(&limiter, &counters, sidecars: 4, at: start)
        #expect(second.map(\.decision.isAllowed) == [true])
    }

    @Test("A remembered refusal is not used after its time, not even for calls that do not wait")
    func localRefusal() {
        var limiter = limiter(window: .seconds(86_400))
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 10), now: start)
        _ = limiter.admit(LimitRequest(id: 1, deadline: .distantFuture), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        #expect(limiter.nextWakeUp(now: start) == after(1000))
        let hasLeft = limiter.remove(1)
        #expect(hasLeft)
        let before = limiter.admit(LimitRequest(id: 2), now: after(999))
        #expect(before != .queued)
        let behind = limiter.admit(LimitRequest(id: 3), now: after(1000))
        #expect(behind == .queued)
    }

    @Test("Calls that no limit applies to after a reload are not evaluated")
    func unlimitedAfterReload() {
        let perUser = LimitDefinition(name: "user", limit: 10, window: .seconds(1), isPerSubject: true)
        var limiter = limiter()
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 10), now: start)
        _ = limiter.admit(LimitRequest(id: 1, deadline: .distantFuture), now: start)
        _ = limiter.admit(LimitRequest(id: 2, subject: "ann", deadline: .distantFuture), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        limiter.redefine(definitions: [perUser], maximumWaiting: 100)
        #expect(limiter.removeUnlimited().map(\.id) == [1])
        #expect(evaluate(&limiter, &counters, at: start).map(\.id) == [2])
    }
}

import InterlockCore
import Testing

@Suite("Shadow limits and limit events")
struct ShadowLimitTests {
    private let start = Instant(nanoseconds: 1_000_000_000)
    private let real = LimitDefinition(name: "real", limit: 10, window: .seconds(60))

    private func shadow(_ limit: Int64, _ algorithm: LimitAlgorithm = .fixed) -> LimitDefinition {
        LimitDefinition(name: "shadow", limit: limit, window: .seconds(60), algorithm: algorithm, isShadow: true)
    }

    private func limiter(_ definitions: [LimitDefinition]) -> ServiceLimiter {
        ServiceLimiter(definitions: definitions, maximumWaiting: 10)
    }

    @discardableResult
    private func take(
        _ limiter: inout ServiceLimiter, _ counters: inout LocalCounters, calls: Int, subject: String? = nil, at now: Instant
    ) -> (resolutions: [ServiceLimiter.CallResolution], excess: Int64) {
        for id in 0..<calls { _ = limiter.admit(LimitRequest(id: id, subject: subject), now: now) }
        guard let batch = limiter.nextBatch(now: now) else { return ([], 0) }
        let verdict = counters.evaluate(batch.limits, now: now)
        var resolutions: [ServiceLimiter.CallResolution] = []
        limiter.apply(verdict, of: batch, sentAt: now, now: now, into: &resolutions)
        return (resolutions, verdict.counters.reduce(0) { $0 + $1.excess })
    }

    @Test(
        "A shadow limit refuses no call and counts what it would refuse",
        arguments: [.fixed, .sliding, .gcra(burst: 2)] as [LimitAlgorithm])
    func refusesNoCall(algorithm: LimitAlgorithm) {
        var limiter = limiter([real, shadow(3, algorithm)])
        var counters = LocalCounters()
        let (resolutions, excess) = take(&limiter, &counters, calls: 8, at: start)
        #expect(resolutions.allSatisfy { $0.decision.isAllowed && $0.decision.limitName == real.name })
        #expect(excess == 5)
    }

    @Test("A service with only shadow limits grants everything and reports the shadow's numbers")
    func onlyShadows() {
        var limiter = limiter([shadow(3)])
        var counters = LocalCounters()
        let (resolutions, _) = take(&limiter, &counters, calls: 5, at: start)
        #expect(resolutions.map(\.decision.isAllowed) == [true, true, true, true, true])
        #expect(resolutions.last?.decision.limit == 3)
        #expect(resolutions.last?.decision.remaining == 0)
    }

    @Test("A shadow limit counts only granted calls")
    func onlyGranted() {
        var limiter = limiter([real, shadow(12)])
        var counters = LocalCounters()
        let (_, excess) = take(&limiter, &counters, calls: 15, at: start)
        #expect(excess == 0)
    }

    @Test("A cost above a shadow's limit is granted")
    func highCost() {
        var limiter = limiter([real, shadow(3)])
        #expect(limiter.admit(LimitRequest(id: 0, cost: 5), now: start) == .queued)
    }

    @Test("An event reports four fifths of a limit as near, and the first refusal as reached")
    func fourFifthsOfLimitAreReportedAsNear() {
        var limiter = limiter([real])
        var counters = LocalCounters()
        take(&limiter, &counters, calls: 7, at: start)
        #expect(limiter.removeNotices().isEmpty)
        take(&limiter, &counters, calls: 1, at: start)
        let near = limiter.removeNotices()
        #expect(near.map(\.kind) == [.near])
        #expect(near.first?.used == 8)
        take(&limiter, &counters, calls: 3, at: start)
        #expect(limiter.removeNotices().map(\.kind) == [.reached])
    }

    @Test("Each event is sent once per window, whatever the number of subjects")
    func oncePerWindow() {
        let perUser = LimitDefinition(name: "user", limit: 1, window: .seconds(60), isPerSubject: true)
        var limiter = limiter([perUser])
        var counters = LocalCounters()
        var noticeCount = 0
        for user in 0..<50 {
            take(&limiter, &counters, calls: 2, subject: "user\(user)", at: start)
            noticeCount += limiter.removeNotices().count
        }
        #expect(noticeCount == 1)
        let later = start.advanced(byMilliseconds: 60_000)
        take(&limiter, &counters, calls: 2, subject: "ann", at: later)
        #expect(limiter.removeNotices().map(\.subject) == ["ann"])
    }

    @Test("An event reports a shadow limit that would refuse")
    func shadowNotice() {
        var limiter = limiter([shadow(3)])
        var counters = LocalCounters()
        take(&limiter, &counters, calls: 5, at: start)
        #expect(limiter.removeNotices().map(\.kind) == [.near, .shadow])
    }
}

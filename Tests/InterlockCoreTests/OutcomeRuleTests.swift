import Testing

@testable import InterlockCore

@Suite("How outcomes count and when they trip")
struct OutcomeRuleTests {
    private let now = Instant(nanoseconds: 10_000_000_000)
    private let settings = BreakerSettings(
        failureRate: 0.5, slowCall: .milliseconds(100), minimumCalls: 4, consecutiveFailures: 6,
        failureStatuses: StatusSet(500...599, 429...429), ignoredStatuses: StatusSet(404...404))

    @Test(
        "Rates trip the breaker from the minimum number of calls on, and consecutive failures trip it at any number",
        arguments: [
            (OutcomeSums(calls: 3, failures: 3), nil), (OutcomeSums(calls: 4, failures: 1), nil),
            (OutcomeSums(calls: 4, failures: 2), BreakerCause.failures), (OutcomeSums(calls: 10, slow: 8), .slow),
            (OutcomeSums(calls: 10, slow: 7), nil), (OutcomeSums(), nil),
            (OutcomeSums(calls: 3, failures: 3, trailingFailures: 6), .consecutive),
            (OutcomeSums(calls: 100, failures: 6, trailingFailures: 5), nil),
        ])
    func tripRule(sums: OutcomeSums, cause: BreakerCause?) {
        #expect(sums.cause(by: settings) == cause)
    }

    @Test("Failures in a row continue across reports until the first success")
    func inARow() {
        let failures = OutcomeSums(calls: 2, failures: 2, trailingFailures: 2)
        let mixed = OutcomeSums(calls: 3, failures: 2, trailingFailures: 1)
        #expect(failures.followed(by: failures).trailingFailures == 4)
        #expect(failures.followed(by: mixed).trailingFailures == 1)
        #expect(mixed.followed(by: failures).trailingFailures == 3)
    }

    @Test(
        "A status overrides a reported outcome, except an ignored one",
        arguments: [
            (Outcome.ok, 503, Outcome.error), (.ok, 429, .error), (.error, 404, .ignore), (.ignore, 500, .ignore),
            (.error, 200, .error), (.ok, 200, .ok), (.error, nil, .error),
        ] as [(Outcome, Int?, Outcome)])
    func effectiveOutcome(outcome: Outcome, status: Int?, expected: Outcome) {
        #expect(settings.effectiveOutcome(outcome, status: status) == expected)
    }

    @Test(
        "Retry-After counts with 429 and 503, and with a failure without a status",
        arguments: [
            (Outcome.ok, 429, true), (.error, 503, true), (.error, nil, true), (.ok, nil, false), (.error, 500, false),
            (.ignore, 503, false),
        ] as [(Outcome, Int?, Bool)])
    func retryAfterCountsWithFailures(outcome: Outcome, status: Int?, counts: Bool) {
        let pause = settings.pauseMilliseconds(askedFor: 2000, outcome: outcome, status: status)
        #expect(pause == (counts ? 2000 : nil))
    }

    @Test("Retry-After opens the breaker for at most the maximum open time, and not at all unless it is honored")
    func retryAfterIsBoundedByMaximumOpenTime() {
        #expect(
            settings.pauseMilliseconds(askedFor: 86_400_000, outcome: .error, status: 503)
                == settings.openFor.upperBound.wholeMilliseconds)
        var ignoring = settings
        ignoring.honorsRetryAfter = false
        #expect(ignoring.pauseMilliseconds(askedFor: 2000, outcome: .error, status: 503) == nil)
    }

    @Test("A window of time drops a tenth at a time")
    func timeWindow() {
        var window = OutcomeWindow(.time(.seconds(10)))
        for second in 0..<10 {
            window.add(isFailure: true, isSlow: false, now: now.advanced(byMilliseconds: Int64(second) * 1000))
        }
        let full = window.sums(now: now.advanced(byMilliseconds: 9999))
        #expect(full.calls == 10)
        let later = window.sums(now: now.advanced(byMilliseconds: 12_000))
        #expect(later.failures == 7)
        let empty = window.sums(now: now.advanced(byMilliseconds: 100_000))
        #expect(empty.isEmpty)
    }

    @Test("A window of calls holds the latest calls and at most a tenth more")
    func callWindow() {
        var window = OutcomeWindow(.calls(100))
        for index in 0..<1000 {
            window.add(isFailure: index < 850, isSlow: false, now: now)
            let sums = window.sums(now: now)
            #expect(index < 99 ? sums.calls == index + 1 : (100...110).contains(sums.calls))
        }
        let sums = window.sums(now: now)
        #expect(sums.failures == 0)
    }
}

import Testing

@testable import InterlockCore

@Suite("How outcomes count, and when they trip")
struct OutcomeRuleTests {
    private let now = Instant(nanoseconds: 10_000_000_000)
    private let settings = BreakerSettings(
        failureRate: 0.5, slowCall: .milliseconds(100), minimumCalls: 4, consecutiveFailures: 6,
        failureStatuses: StatusSet(500...599, 429...429), ignoredStatuses: StatusSet(404...404))

    @Test(
        "failure rate, slow rate and failures in a row each trip, rates only from the minimum of calls on",
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

    @Test("failures in a row continue across reports until a success")
    func inARow() {
        let failures = OutcomeSums(calls: 2, failures: 2, trailingFailures: 2)
        let mixed = OutcomeSums(calls: 3, failures: 2, trailingFailures: 1)
        #expect(failures.followed(by: failures).trailingFailures == 4)
        #expect(failures.followed(by: mixed).trailingFailures == 1)
        #expect(mixed.followed(by: failures).trailingFailures == 3)
    }

    @Test(
        "a status overrides a reported outcome, except an ignored one",
        arguments: [
            (Outcome.ok, 503, Outcome.error), (.ok, 429, .error), (.error, 404, .ignore), (.ignore, 500, .ignore),
            (.error, 200, .error), (.ok, 200, .ok), (.error, nil, .error),
        ] as [(Outcome, Int?, Outcome)])
    func judged(outcome: Outcome, status: Int?, expected: Outcome) {
        #expect(settings.judged(outcome, status: status) == expected)
    }

    @Test(
        "Retry-After counts with 429 and 503, and with a failure without a status",
        arguments: [
            (Outcome.ok, 429, true), (.error, 503, true), (.error, nil, true), (.ok, nil, false), (.error, 500, false),
            (.ignore, 503, false),
        ] as [(Outcome, Int?, Bool)])
    func retryAfter(outcome: Outcome, status: Int?, counts: Bool) {
        let pause = settings.pause(askedFor: 2000, outcome: outcome, status: status)
        #expect(pause == (counts ? 2000 : nil))
    }

    @Test("Retry-After opens no longer than the longest open time, and not at all when it is not honoured")
    func longestRetryAfter() {
        #expect(
            settings.pause(askedFor: 86_400_000, outcome: .error, status: 503) == settings.openFor.upperBound.wholeMilliseconds)
        var deaf = settings
        deaf.honoursRetryAfter = false
        #expect(deaf.pause(askedFor: 2000, outcome: .error, status: 503) == nil)
    }

    @Test("a window of time drops a tenth at a time")
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

    @Test("a window of calls holds the latest calls, and at most a tenth more")
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

    @Test("equal definitions have equal digests, and different ones differ")
    func digest() {
        let service = ServiceDefinition(name: "catalog", limits: [LimitDefinition(name: "1s", limit: 10, window: .seconds(1))])
        var other = service
        other.limits[0].limit = 11
        var slower = service
        slower.breaker.openFor = .seconds(6) ... .seconds(60)
        #expect(service.digest == ServiceDefinition(name: "catalog", limits: service.limits).digest)
        #expect(Set([service.digest, other.digest, slower.digest]).count == 3)
        #expect(service.digest.utf8.count == 16)
    }

    @Test("what later versions added does not change the digest while it is not used: sidecars of two versions agree on one file")
    func digestAcrossVersions() {
        var service = ServiceDefinition(
            name: "catalog",
            limits: [
                LimitDefinition(name: "1s", limit: 10, window: .seconds(1)),
                LimitDefinition(
                    name: "1m-subject", limit: 5, window: .seconds(60), algorithm: .gcra(burst: 4), isPerSubject: true),
            ])
        // As a sidecar without `requiresSubject` wrote it to Redis.
        #expect(service.digest == "cc35b9f317c68573")
        service.limits[1].requiresSubject = true
        #expect(service.digest != "cc35b9f317c68573")
    }

    @Test("settings of an upstream that later versions added do not change the digest while they have their defaults")
    func digestOfUpstream() {
        var service = ServiceDefinition(name: "catalog", upstream: UpstreamSettings(url: "http://127.0.0.1:9"))
        let before = service.digest
        // As f0717fd computed it.
        #expect(before == "bbbe4ceceedb3775")
        service.upstream?.certificateAuthorityDigest = [1, 2, 3]
        #expect(service.digest == before)
        service.upstream?.idleTimeout = .seconds(1)
        #expect(service.digest != before)
        service.upstream?.idleTimeout = .seconds(300)
        service.upstream?.connections.maximumAge = nil
        #expect(service.digest != before)
        service.upstream?.connections.maximumAge = .seconds(300)
        #expect(service.digest == before)
        service.upstream?.totalTimeout = nil
        #expect(service.digest != before)
    }

    @Test("the digest of a probe is the one that sidecars with regular expressions computed")
    func digestOfProbe() {
        let expectation = ProbeExpectation(
            statuses: StatusSet(200...204), headers: [.init(name: "X-State", value: "up")],
            body: [.contains("ok"), .json(path: "$.status", equals: "up")])
        let probe = ProbeSettings(
            target: .http("http://a.example/status"), interval: .seconds(2), timeout: .milliseconds(500),
            expectation: expectation, unhealthyAfter: 4, healthyAfter: 1, isFollowedByTrial: true, origin: .all)
        #expect(ServiceDefinition(name: "catalog", upstream: nil, probe: probe).digest == "03163abe5fd965b7")
        let connection = ProbeSettings(target: .tcp(host: "a.example", port: 5432))
        #expect(ServiceDefinition(name: "catalog", upstream: nil, probe: connection).digest == "7e0f063bda1a3a39")
    }

    @Test("a definition that states a default has the digest of one that omits it")
    func digestOfDefaults() {
        #expect(ServiceDefinition(name: "catalog").digest == "cbf29ce484222325")
    }
}

import InterlockCore
import Testing

@Suite("The limits of one service in one sidecar")
struct ServiceLimiterTests {
    private let perSecond = LimitDefinition(name: "1s", limit: 10, window: .seconds(1))
    private let start = Instant(nanoseconds: 1_000_000_000)

    private func limiter(_ definitions: [LimitDefinition], maximumWaiting: Int = 100) -> ServiceLimiter {
        ServiceLimiter(definitions: definitions, maximumWaiting: maximumWaiting)
    }

    /// Evaluates all queued calls with `counters`. Returns the answers.
    private func evaluate(
        _ limiter: inout ServiceLimiter, _ counters: inout LocalCounters, at now: Instant
    ) -> [ServiceLimiter.CallResolution] {
        guard let batch = limiter.nextBatch(now: now) else { return [] }
        let verdict = counters.evaluate(batch.limits, now: now)
        var resolutions: [ServiceLimiter.CallResolution] = []
        limiter.apply(verdict, of: batch, sentAt: now, now: now, into: &resolutions)
        return resolutions
    }

    @Test("Ten of eleven calls in a window are taken in order, and the last gets a retry time")
    func fixedWindow() {
        var limiter = limiter([perSecond])
        var counters = LocalCounters()
        for id in 0..<11 { #expect(limiter.admit(LimitRequest(id: id), now: start) == .queued) }
        let resolutions = evaluate(&limiter, &counters, at: start)
        #expect(resolutions.map(\.id) == Array(0..<11))
        #expect(resolutions.map(\.decision.remaining) == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0])
        #expect(resolutions.prefix(10).allSatisfy { $0.decision.isAllowed })
        #expect(resolutions[10].decision.retryAfterMilliseconds == 1000)
    }

    @Test("Equal neighboring calls form one run")
    func equalNeighboringCallsFormOneRun() {
        var limiter = limiter([perSecond])
        for id in 0..<5 { _ = limiter.admit(LimitRequest(id: id), now: start) }
        _ = limiter.admit(LimitRequest(id: 5, cost: 2), now: start)
        let batch = limiter.nextBatch(now: start)
        #expect(batch?.limits.runs.map(\.count) == [5, 1])
    }

    @Test("Only one batch is in flight unless the next one is large enough")
    func oneBatch() throws {
        var limiter = limiter([perSecond])
        _ = limiter.admit(LimitRequest(id: 0), now: start)
        let asked = limiter.nextBatch(now: start)
        let first = try #require(asked)
        _ = limiter.admit(LimitRequest(id: 1), now: start)
        #expect(limiter.nextBatch(now: start) == nil)
        limiter.abandon(first)
        #expect(limiter.nextBatch(now: start)?.requests.map(\.id) == [1])
    }

    /// Admits one call for each of `count` subjects, so that each call is a run of its own.
    private func admit(_ count: Int, from first: Int, deadline: Instant? = nil, to limiter: inout ServiceLimiter) {
        for id in first..<(first + count) {
            _ = limiter.admit(LimitRequest(id: id, subject: "\(id)", deadline: deadline), now: start)
        }
    }

    @Test("A large enough batch follows the one in flight, and their verdicts may arrive in any order")
    func twoBatches() throws {
        let perSubject = LimitDefinition(name: "1s", limit: 1, window: .seconds(1), isPerSubject: true)
        for isInOrder in [true, false] {
            var limiter = limiter([perSubject])
            var counters = LocalCounters()
            admit(100, from: 0, to: &limiter)
            let asked = limiter.nextBatch(now: start)
            let first = try #require(asked)
            admit(63, from: 0, to: &limiter)
            #expect(!limiter.mayFlush && limiter.nextBatch(now: start) == nil)
            admit(37, from: 63, to: &limiter)
            let askedNext = limiter.nextBatch(now: start)
            let second = try #require(askedNext)
            #expect(first.requests.map(\.id) == Array(0..<100) && second.requests.map(\.id) == Array(0..<100))
            admit(100, from: 0, to: &limiter)
            #expect(limiter.mayFlush == false)
            let verdicts = [
                (first, counters.evaluate(first.limits, now: start)), (second, counters.evaluate(second.limits, now: start)),
            ]
            var resolutions: [ServiceLimiter.CallResolution] = []
            for (batch, verdict) in isInOrder ? verdicts : verdicts.reversed() {
                limiter.apply(verdict, of: batch, sentAt: start, now: start, into: &resolutions)
            }
            // The third hundred calls are answered from the refusals of the second hundred.
            #expect(resolutions.count == 300 && resolutions.filter(\.decision.isAllowed).count == 100)
            #expect(!limiter.hasArrivals && limiter.mayFlush)
        }
    }

    @Test("No batch follows one with a waiting call, and no batch with a waiting call follows another")
    func noBatchAfterWaiters() throws {
        let perSubject = LimitDefinition(name: "1s", limit: 1, window: .seconds(1), isPerSubject: true)
        for waitersAreFirst in [true, false] {
            var limiter = limiter([perSubject])
            admit(100, from: 0, deadline: waitersAreFirst ? .distantFuture : nil, to: &limiter)
            #expect(limiter.nextBatch(now: start) != nil)
            admit(100, from: 100, deadline: waitersAreFirst ? nil : .distantFuture, to: &limiter)
            #expect(limiter.mayFlush == false)
        }
    }

    @Test("The end of a fixed window is sent with the next batch while it lasts, and with no other limit")
    func windowEnds() throws {
        let definitions = [
            LimitDefinition(name: "1s", limit: 9, window: .seconds(1)),
            LimitDefinition(name: "own", limit: 9, window: .seconds(1), isPerSubject: true),
            LimitDefinition(name: "log", limit: 9, window: .seconds(1), algorithm: .sliding),
        ]
        var limiter = limiter(definitions)
        /// Makes a call of subject "a" at a time of the Redis clock. Returns the window ends that its batch knew.
        func ask(at milliseconds: Int64, taken: Int64, resetAfterMilliseconds: Int64) throws -> [String: Int64] {
            _ = limiter.admit(LimitRequest(id: 0, subject: "a"), now: start)
            let asked = limiter.nextBatch(now: start)
            let batch = try #require(asked)
            let verdict = BatchVerdict(
                timeMicroseconds: milliseconds * 1000 + 999,
                counters: batch.limits.counters.map { _ in
                    .init(count: taken, capacity: 9, resetAfterMilliseconds: resetAfterMilliseconds)
                },
                fits: batch.limits.charges.map { _ in .init(count: 1) })
            var resolutions: [ServiceLimiter.CallResolution] = []
            limiter.apply(verdict, of: batch, sentAt: start, now: start, into: &resolutions)
            return Dictionary(
                uniqueKeysWithValues: batch.limits.counters.map {
                    (definitions[$0.definitionIndex].name, $0.endsAtMilliseconds)
                })
        }
        #expect(try ask(at: 5000, taken: 0, resetAfterMilliseconds: 1000) == ["1s": 0, "own": 0, "log": 0])
        // The first call began the window; only the next batch learns that it has begun.
        #expect(try ask(at: 5100, taken: 1, resetAfterMilliseconds: 900) == ["1s": 0, "own": 0, "log": 0])
        #expect(try ask(at: 5200, taken: 2, resetAfterMilliseconds: 800) == ["1s": 6000, "own": 6000, "log": 0])
        #expect(try ask(at: 7000, taken: 1, resetAfterMilliseconds: 700) == ["1s": 6000, "own": 6000, "log": 0])
        #expect(try ask(at: 7100, taken: 2, resetAfterMilliseconds: 600) == ["1s": 7700, "own": 7700, "log": 0])
        // The Redis clock is set back.
        #expect(try ask(at: 1000, taken: 3, resetAfterMilliseconds: 400) == ["1s": 7700, "own": 7700, "log": 0])
        #expect(try ask(at: 1100, taken: 4, resetAfterMilliseconds: 300) == ["1s": 1400, "own": 1400, "log": 0])
    }

    @Test("A refusal is remembered for its cost and higher ones until exactly the window's end")
    func rememberedRefusal() {
        var limiter = limiter([perSecond])
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 8), now: start)
        _ = limiter.admit(LimitRequest(id: 1, cost: 5), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        guard case .decided(let decision) = limiter.admit(LimitRequest(id: 2, cost: 6), now: start) else {
            Issue.record("a higher cost was sent to Redis")
            return
        }
        #expect(decision.remaining == 2)
        #expect(limiter.admit(LimitRequest(id: 3, cost: 2), now: start) == .queued)
        let end = start.advanced(byMilliseconds: 1000)
        #expect(limiter.admit(LimitRequest(id: 4, cost: 6), now: end) == .queued)
    }

    @Test("A refund clears the remembered refusal")
    func refundClearsRememberedRefusal() {
        var limiter = limiter([perSecond])
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 10), now: start)
        _ = limiter.admit(LimitRequest(id: 1), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        limiter.recordRefund(definitionIndex: 0, subject: nil)
        #expect(limiter.admit(LimitRequest(id: 2), now: start) == .queued)
    }

    @Test("Changed limits apply immediately, even to remembered refusals, and waiting calls are re-evaluated in order")
    func changedLimitsApplyImmediately() {
        var limiter = limiter([perSecond])
        var counters = LocalCounters()
        let deadline = start.advanced(byMilliseconds: 5000)
        _ = limiter.admit(LimitRequest(id: 0, cost: 10), now: start)
        _ = limiter.admit(LimitRequest(id: 1, deadline: deadline), now: start)
        _ = limiter.admit(LimitRequest(id: 2, deadline: deadline), now: start)
        #expect(evaluate(&limiter, &counters, at: start).map(\.id) == [0])
        var more = perSecond
        more.limit = 20
        limiter.redefine(definitions: [more], maximumWaiting: 100)
        #expect(limiter.nextBatch(now: start)?.requests.map(\.id) == [1, 2])
    }

    @Test("An answer names the limit that decided, even if a reload came before it")
    func nameAfterReload() {
        let perDay = LimitDefinition(name: "1d", limit: 3, window: .seconds(86_400))
        var limiter = limiter([perSecond, perDay])
        var counters = LocalCounters()
        for id in 0..<4 { _ = limiter.admit(LimitRequest(id: id), now: start) }
        guard let batch = limiter.nextBatch(now: start) else {
            Issue.record("no batch was sent")
            return
        }
        let verdict = counters.evaluate(batch.limits, now: start)
        limiter.redefine(
            definitions: [LimitDefinition(name: "1h", limit: 9, window: .seconds(3600)), perSecond], maximumWaiting: 100)
        var resolutions: [ServiceLimiter.CallResolution] = []
        limiter.apply(verdict, of: batch, sentAt: start, now: start, into: &resolutions)
        #expect(resolutions.count == 4 && resolutions.allSatisfy { $0.decision.limitName == perDay.name })
    }

    @Test("A cost above the limit is refused immediately as never satisfiable")
    func neverSatisfiable() {
        var limiter = limiter([perSecond])
        guard case .decided(let decision) = limiter.admit(LimitRequest(id: 0, cost: 11), now: start) else {
            Issue.record("the call was queued")
            return
        }
        #expect(decision.outcome == .neverSatisfiable)
    }

    @Test("A call takes from all limits of a service or from no limit")
    func allOrNone() {
        let perDay = LimitDefinition(name: "1d", limit: 3, window: .seconds(86_400))
        var limiter = limiter([perSecond, perDay])
        var counters = LocalCounters()
        for id in 0..<5 { _ = limiter.admit(LimitRequest(id: id), now: start) }
        let resolutions = evaluate(&limiter, &counters, at: start)
        #expect(resolutions.map(\.decision.isAllowed) == [true, true, true, false, false])
        #expect(resolutions[4].decision.limitName == perDay.name)
        // The day's refusal is remembered for a second. Afterwards the day's limit still binds, and the refused calls
        // took nothing from the second's limit.
        guard case .decided(let decision) = limiter.admit(LimitRequest(id: 9), now: start.advanced(byMilliseconds: 999))
        else {
            Issue.record("the day's refusal was forgotten")
            return
        }
        #expect(decision.limitName == perDay.name)
        let later = start.advanced(byMilliseconds: 1001)
        #expect(limiter.admit(LimitRequest(id: 10), now: later) == .queued)
        #expect(evaluate(&limiter, &counters, at: later).map(\.decision.limitName) == [perDay.name])
    }

    @Test("A subject counts towards its own limit and the service's")
    func subjectCountsTowardsItsOwnLimit() {
        let perUser = LimitDefinition(name: "user", limit: 2, window: .seconds(1), isPerSubject: true)
        var limiter = limiter([perSecond, perUser])
        var counters = LocalCounters()
        for id in 0..<3 { _ = limiter.admit(LimitRequest(id: id, subject: "ann"), now: start) }
        _ = limiter.admit(LimitRequest(id: 3, subject: "bob"), now: start)
        _ = limiter.admit(LimitRequest(id: 4), now: start)
        let resolutions = evaluate(&limiter, &counters, at: start)
        #expect(resolutions.map(\.decision.isAllowed) == [true, true, false, true, true])
        #expect(resolutions[4].decision.remaining == 6)
        #expect(limiter.admit(LimitRequest(id: 5, subject: "ann"), now: start) != .queued)
        #expect(limiter.admit(LimitRequest(id: 6, subject: "cid"), now: start) == .queued)
    }

    @Test("Without a subject, a service with only per-subject limits has nothing to take from")
    func onlySubjects() {
        var limiter = limiter([LimitDefinition(name: "user", limit: 2, window: .seconds(1), isPerSubject: true)])
        #expect(limiter.admit(LimitRequest(id: 0), now: start) == .unlimited)
        #expect(limiter.admit(LimitRequest(id: 1, subject: "ann"), now: start) == .queued)
    }

    @Test("A waiting call is never overtaken, and is granted in the next window")
    func waitingCallIsNeverOvertaken() {
        var limiter = limiter([perSecond])
        var counters = LocalCounters()
        let deadline = start.advanced(byMilliseconds: 5000)
        _ = limiter.admit(LimitRequest(id: 0, cost: 8), now: start)
        _ = limiter.admit(LimitRequest(id: 1, cost: 5, deadline: deadline), now: start)
        _ = limiter.admit(LimitRequest(id: 2, cost: 1), now: start)
        #expect(evaluate(&limiter, &counters, at: start).filter(\.decision.isAllowed).map(\.id) == [0])
        // The call would fit, but another call waits for the same counter.
        guard case .decided = limiter.admit(LimitRequest(id: 3), now: start) else {
            Issue.record("a newcomer overtook a waiter")
            return
        }
        #expect(limiter.admit(LimitRequest(id: 4, deadline: deadline), now: start).isWaiting)
        let wakeUp = limiter.nextWakeUp(now: start)
        #expect(wakeUp == start.advanced(byMilliseconds: 1000))
        let resolutions = evaluate(&limiter, &counters, at: wakeUp ?? start)
        #expect(resolutions.map(\.id) == [1, 4])
        #expect(resolutions.allSatisfy { $0.decision.isAllowed })
    }

    @Test("A waiting call that cannot be granted in time is refused immediately with its retry time")
    func hopelessWait() {
        var limiter = limiter([perSecond])
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 10), now: start)
        _ = limiter.admit(LimitRequest(id: 1, deadline: start.advanced(byMilliseconds: 500)), now: start)
        let resolutions = evaluate(&limiter, &counters, at: start)
        #expect(resolutions.last?.id == 1)
        #expect(resolutions.last?.decision.retryAfterMilliseconds == 1000)
        #expect(limiter.waitingCount == 0)
    }

    @Test("The queue is bounded")
    func boundedQueue() {
        var limiter = limiter([perSecond], maximumWaiting: 2)
        var counters = LocalCounters()
        let deadline = start.advanced(byMilliseconds: 5000)
        _ = limiter.admit(LimitRequest(id: 0, cost: 10), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        _ = limiter.admit(LimitRequest(id: 1), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        #expect(limiter.admit(LimitRequest(id: 2, deadline: deadline), now: start).isWaiting)
        #expect(limiter.admit(LimitRequest(id: 3, deadline: deadline), now: start).isWaiting)
        guard case .decided = limiter.admit(LimitRequest(id: 4, deadline: deadline), now: start) else {
            Issue.record("the queue grew past its limit")
            return
        }
    }

    @Test("When a waiting call leaves or ends, the calls behind it may proceed")
    func leavingWaiter() {
        var limiter = limiter([perSecond])
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 8), now: start)
        _ = limiter.admit(LimitRequest(id: 1, cost: 5, deadline: start.advanced(byMilliseconds: 2000)), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        #expect(limiter.waitingCount == 1)
        let wasWaiting = limiter.remove(1)
        let isStillWaiting = limiter.remove(1)
        #expect(wasWaiting)
        #expect(!isStillWaiting)
        #expect(limiter.admit(LimitRequest(id: 2, cost: 2), now: start) == .queued)
    }

    @Test("A call whose wait has expired is refused")
    func expiredWait() {
        var limiter = limiter([perSecond])
        var counters = LocalCounters()
        _ = limiter.admit(LimitRequest(id: 0, cost: 10), now: start)
        _ = limiter.admit(LimitRequest(id: 1, deadline: start.advanced(byMilliseconds: 1500)), now: start)
        _ = evaluate(&limiter, &counters, at: start)
        var resolutions: [ServiceLimiter.CallResolution] = []
        limiter.expire(now: start.advanced(byMilliseconds: 1499), into: &resolutions)
        #expect(resolutions.isEmpty)
        limiter.expire(now: start.advanced(byMilliseconds: 1500), into: &resolutions)
        #expect(resolutions.map(\.id) == [1])
        #expect(resolutions.first?.decision.isAllowed == false)
    }

    @Test("Under random load no window exceeds its limit, and every call is answered once")
    func randomLoad() {
        var random = SeededRandom(seed: 7)
        let definitions = [
            LimitDefinition(name: "1s", limit: 7, window: .seconds(1)),
            LimitDefinition(name: "5s", limit: 20, window: .seconds(5)),
            LimitDefinition(name: "user", limit: 3, window: .seconds(2), isPerSubject: true),
        ]
        for _ in 0..<200 {
            var limiter = limiter(definitions)
            var counters = LocalCounters()
            var now = start
            var open: [Int: LimitRequest] = [:]
            var grants: [(at: Instant, request: LimitRequest)] = []
            func take(_ id: Int, _ decision: CallDecision) {
                guard let request = open.removeValue(forKey: id) else {
                    Issue.record("call \(id) was answered twice")
                    return
                }
                if decision.isAllowed { grants.append((now, request)) }
            }
            for id in 0..<150 {
                now = now.advanced(byMilliseconds: Int64(random.next() % 120))
                let subject = [nil, "ann", "bob"][Int(random.next() % 3)]
                let waits = random.next() % 2 == 0
                let request = LimitRequest(
                    id: id, cost: Int64(random.next() % 3) + 1, subject: subject,
                    deadline: waits ? now.advanced(byMilliseconds: Int64(random.next() % 3000)) : nil)
                open[id] = request
                if case .decided(let decision) = limiter.admit(request, now: now) { take(id, decision) }
                if random.next() % 2 == 0 {
                    var expired: [ServiceLimiter.CallResolution] = []
                    limiter.expire(now: now, into: &expired)
                    for resolution in expired + evaluate(&limiter, &counters, at: now) {
                        take(resolution.id, resolution.decision)
                    }
                }
            }
            while !open.isEmpty {
                for resolution in evaluate(&limiter, &counters, at: now) { take(resolution.id, resolution.decision) }
                guard let next = limiter.nextWakeUp(now: now) else { continue }
                now = max(now, next)
                var expired: [ServiceLimiter.CallResolution] = []
                limiter.expire(now: now, into: &expired)
                for resolution in expired { take(resolution.id, resolution.decision) }
            }
            #expect(open.isEmpty, "a call was never answered")
            // A fixed window begins with its first call.
            for (definition, subjects) in zip(definitions, [[nil], [nil], ["ann", "bob"]] as [[String?]]) {
                for subject in subjects {
                    var windowStart: Instant?
                    var count: Int64 = 0
                    for grant in grants where subject == nil || grant.request.subject == subject {
                        if let begun = windowStart, begun.advanced(byMilliseconds: definition.windowMilliseconds) > grant.at {
                            count += grant.request.cost
                        } else {
                            windowStart = grant.at
                            count = grant.request.cost
                        }
                        #expect(count <= definition.limit)
                    }
                }
            }
        }
    }

    @Test("A large number of subjects is evaluated in parts, in order")
    func manySubjectsAreEvaluatedInParts() {
        let perUser = LimitDefinition(name: "user", limit: 1, window: .seconds(1), isPerSubject: true)
        var limiter = ServiceLimiter(definitions: [perUser], maximumWaiting: 100)
        for id in 0..<5000 { _ = limiter.admit(LimitRequest(id: id, subject: "user\(id)"), now: start) }
        var counters = LocalCounters()
        var decidedIDs: [Int] = []
        var batches = 0
        while limiter.hasArrivals {
            decidedIDs += evaluate(&limiter, &counters, at: start).map(\.id)
            batches += 1
        }
        #expect(decidedIDs == Array(0..<5000))
        #expect(batches == 3)
    }

    @Test("A service with 96 unsent requests is backed up until they are sent")
    func serviceWith96UnsentRequestsIsBackedUp() {
        var limiter = ServiceLimiter(
            definitions: [LimitDefinition(name: "all", limit: 1000, window: .seconds(1))], maximumWaiting: 100)
        for id in 0..<95 { _ = limiter.admit(LimitRequest(id: id), now: start) }
        #expect(limiter.isBackedUp == false)
        _ = limiter.admit(LimitRequest(id: 95), now: start)
        #expect(limiter.isBackedUp == true)
        #expect(limiter.nextBatch(now: start)?.requests.count == 96)
        #expect(limiter.isBackedUp == false)
    }
}

extension ServiceLimiter.Admission {
    /// Whether the call waits.
    var isWaiting: Bool { if case .waiting = self { true } else { false } }
}

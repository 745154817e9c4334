import InterlockCore
import Testing

/// A gate whose steps are described in words instead of being executed.
private final class GateHarness {
    var gate: ServiceGate
    var now = Instant(nanoseconds: 10_000_000_000)
    private var number: UInt64 = 0

    init(_ definition: ServiceDefinition) {
        gate = ServiceGate(definition: definition)
    }

    func call(subject: String? = nil, wait: Int64? = nil) -> GateCall {
        number += 1
        return GateCall(
            number: number, cost: 1, subject: subject, deadline: wait.map { now.advanced(byMilliseconds: $0) },
            callerKey: Int(number))
    }

    func admit(_ call: GateCall) -> [String] { Self.words(gate.admit(call, now: now)) }
    func proceed(_ call: GateCall) -> [String] { Self.words(gate.proceed(call, now: now)) }
    func granted(_ call: GateCall) -> [String] { Self.words(gate.limitsGranted(call, now: now)) }
    func cancel(_ call: GateCall) -> [String] { Self.words(gate.cancel(call, now: now)) }
    func limited(_ call: GateCall, retryAfter: Int64 = 100) -> [String] {
        Self.words(gate.limitsRefused(call, retryAfterMilliseconds: retryAfter, now: now))
    }

    /// Issues the permit of a call that is being granted.
    func issue(_ call: GateCall) -> PermitID {
        let id = PermitID((call.number, 0))
        _ = gate.issue(id, to: call, now: now)
        call.end()
        return id
    }

    /// Reports the outcome of a permitted call.
    func finish(_ id: PermitID) -> [String] {
        _ = gate.removePermit(id)
        return Self.words(gate.freeSlot(heldForMilliseconds: 10, now: now))
    }

    func trial(_ call: GateCall, _ answer: ServiceGate.TrialResult) -> [String] {
        let expiresAt = now.advanced(byMilliseconds: 60_000)
        return Self.words(
            gate.trialAnswered(call, answer, id: PermitID((7, 7)), expiresAt: expiresAt, now: now))
    }

    var taken: Int { gate.bulkhead.taken }
    var permits: Int { gate.permits.count }
    var waiting: Int { gate.waitingCount }

    func withdraw(_ id: PermitID, from call: GateCall) -> [String] {
        Self.words(gate.withdraw(id, from: call, now: now))
    }
    func resume() -> [String] { Self.words(gate.reevaluatePause(now: now)) }
    func slotTimerFired() -> [String] { Self.words(gate.slotTimerFired(now: now)) }
    func report(_ report: OutcomeReport, of id: PermitID) -> ServiceGate.ReportStep? {
        gate.removePermit(id).map { gate.outcomeReported(report, of: $0, now: now) }
    }
    func beginLimitTrip() -> ClosedRange<Duration>? { gate.beginLimitTrip(retryAfterMilliseconds: 100) }
    func beginClosingAfterLimit() -> Bool { gate.beginClosingAfterLimit(now: now) }

    func retryAfter(of subject: String) -> Int64? {
        gate.refusal(of: subject, mayWait: true, now: now)?.retryAfterMilliseconds
    }
    func asksForTrial() -> Bool { gate.beginTrialRequest() }

    func apply(_ state: BreakerSnapshot.State, cause: String = "failures", generation: Int64) {
        gate.breaker.apply(
            BreakerSnapshot(state: state, generation: generation) { $0.cause = cause }, redisTimeMilliseconds: 0, receivedAt: now)
    }

    /// Describes the steps, except timers, which only say when to ask again.
    private static func words(_ steps: GateSteps) -> [String] {
        (steps.before + (steps.next.map { [$0] } ?? [])).compactMap { step in
            switch step {
            case .proceed(let call): "proceed \(call.number)"
            case .requestTrial(let call): "ask trial \(call.number)"
            case .requestLimits(let call, let wait): "ask limits \(call.number) for \(wait)"
            case .grant(let call): "grant \(call.number)"
            case .refuse(let call, let reason, _): "refuse \(call.number) \(reason)"
            case .refuseForUnreported(let call): "refuse \(call.number) unreported"
            case .failUnconfigured(let call): "fail \(call.number)"
            case .refund(let call): "refund \(call.number)"
            case .returnTrial(_, let generation): "return trial of \(generation)"
            case .closeAfterLimit: "close"
            case .wakeForSlots, .wakeForPause: nil
            }
        }
    }
}

@Suite("The decisions of a service's gate")
struct ServiceGateTests {
    private static func definition(
        limited: Bool = true, concurrency: Int? = nil, onLimit: LimitPolicy = LimitPolicy(action: .wait)
    ) -> ServiceDefinition {
        ServiceDefinition(
            name: "catalog",
            limits: limited ? [LimitDefinition(name: "1s", limit: 10, window: .seconds(1))] : [], onLimit: onLimit,
            concurrency: concurrency)
    }

    @Test("The breaker is checked before the limits, and a call that it refuses does not take from them")
    func breakerFirst() {
        let harness = GateHarness(Self.definition(concurrency: 1))
        harness.gate.breaker.tripLocally(.failures, forMilliseconds: 5000, now: harness.now)
        let call = harness.call()
        #expect(harness.admit(call) == ["refuse 1 open"])
        #expect(harness.taken == 0)
    }

    @Test("Without a free slot a call is refused as busy before anything is taken from the limits")
    func slotBeforeLimits() {
        let harness = GateHarness(Self.definition(concurrency: 1))
        let first = harness.call()
        #expect(harness.admit(first) == ["ask limits 1 for 0"])
        #expect(harness.granted(first) == ["grant 1"])
        let id = harness.issue(first)
        let second = harness.call()
        #expect(harness.admit(second) == ["refuse 2 busy"])
        #expect(harness.finish(id) == [])
        let third = harness.call()
        #expect(harness.admit(third) == ["ask limits 3 for 0"])
    }

    @Test("A call takes its slot after the limits have granted it, not during their decision")
    func slotAfterLimits() {
        let harness = GateHarness(Self.definition(concurrency: 1))
        let (first, second) = (harness.call(), harness.call())
        #expect(harness.admit(first) == ["ask limits 1 for 0"])
        #expect(harness.admit(second) == ["ask limits 2 for 0"])
        #expect(harness.taken == 0)
        #expect(harness.granted(first) == ["grant 1"])
        #expect(harness.taken == 1)
        // The second call refunds its tokens.
        #expect(harness.granted(second) == ["refund 2", "refuse 2 busy"])
    }

    @Test("A call that waited for a slot requests the limits only once it has one, and does not wait for them")
    func waitForSlot() {
        let harness = GateHarness(Self.definition(concurrency: 1))
        let first = harness.call()
        _ = harness.admit(first)
        _ = harness.granted(first)
        let id = harness.issue(first)
        let second = harness.call(wait: 5000)
        #expect(harness.admit(second) == [])
        #expect(second.stage == .slot)
        #expect(harness.finish(id) == ["proceed 2"])
        #expect(harness.proceed(second) == ["ask limits 2 for 0"])
        #expect(harness.granted(second) == ["grant 2"])
    }

    @Test("A call refused by the limits passes its slot to the next call and waits for the limits without it")
    func refusedCallPassesSlotToNext() {
        let harness = GateHarness(Self.definition(concurrency: 1))
        let first = harness.call()
        _ = harness.admit(first)
        _ = harness.granted(first)
        let id = harness.issue(first)
        let (second, third) = (harness.call(wait: 5000), harness.call(wait: 5000))
        _ = harness.admit(second)
        _ = harness.admit(third)
        _ = harness.finish(id)
        _ = harness.proceed(second)
        #expect(harness.limited(second) == ["proceed 3", "ask limits 2 for 5000"])
        #expect(harness.taken == 1)
    }

    @Test("A cancelled call passes its slot to the next call and is ignored by later decisions")
    func cancelWithSlot() {
        let harness = GateHarness(Self.definition(concurrency: 1))
        let first = harness.call()
        _ = harness.admit(first)
        _ = harness.granted(first)
        let id = harness.issue(first)
        let (second, third) = (harness.call(wait: 5000), harness.call(wait: 5000))
        _ = harness.admit(second)
        _ = harness.admit(third)
        _ = harness.finish(id)
        _ = harness.proceed(second)
        #expect(harness.cancel(second) == ["proceed 3"])
        #expect(second.isOver)
        #expect(harness.taken == 1)
    }

    @Test("A permit whose caller has left is withdrawn, along with its slot and its charges")
    func permitOfDepartedCallerIsWithdrawn() {
        let harness = GateHarness(Self.definition(concurrency: 1))
        let call = harness.call()
        _ = harness.admit(call)
        _ = harness.granted(call)
        let id = harness.issue(call)
        #expect(harness.withdraw(id, from: call) == ["refund 1"])
        #expect(harness.taken == 0)
        #expect(harness.permits == 0)
    }

    @Test("With a half-open breaker a call requests a trial permit before the limits, and returns it if they refuse")
    func trialReturned() {
        let harness = GateHarness(Self.definition())
        harness.apply(.halfOpen, generation: 3)
        let call = harness.call()
        #expect(harness.admit(call) == ["ask trial 1"])
        #expect(harness.asksForTrial())
        #expect(harness.trial(call, .granted) == ["ask limits 1 for 0"])
        #expect(harness.limited(call) == ["return trial of 3", "refuse 1 limited"])
    }

    @Test("A trial permit that arrives for a cancelled call is returned")
    func trialForCancelledCall() {
        let harness = GateHarness(Self.definition())
        harness.apply(.halfOpen, generation: 3)
        let call = harness.call(wait: 1000)
        _ = harness.admit(call)
        #expect(harness.asksForTrial())
        #expect(harness.cancel(call) == [])
        #expect(harness.trial(call, .granted) == ["return trial of 3"])
    }

    @Test("At most as many trial permits are requested at a time as the breaker allows")
    func trialRequests() {
        let harness = GateHarness(Self.definition())
        harness.apply(.halfOpen, generation: 3)
        let permits = harness.gate.definition.breaker.halfOpenPermits
        for _ in 0..<permits { #expect(harness.asksForTrial()) }
        #expect(!harness.asksForTrial())
        harness.gate.trialRequestFailed()
        #expect(harness.asksForTrial())
    }

    @Test("A call granted by the limits after the breaker has opened is refused and refunded")
    func openedMeanwhile() {
        let harness = GateHarness(Self.definition(concurrency: 1))
        let call = harness.call()
        _ = harness.admit(call)
        harness.gate.breaker.tripLocally(.failures, forMilliseconds: 5000, now: harness.now)
        #expect(harness.granted(call) == ["refund 1", "refuse 1 open"])
        #expect(harness.taken == 0)
    }

    @Test("Calls wait through the pause that a limit causes and proceed when it is over")
    func callsWaitThroughLimitPause() {
        let policy = LimitPolicy(action: .trip, pause: .seconds(1) ... .seconds(1))
        let harness = GateHarness(Self.definition(onLimit: policy))
        let (first, second) = (harness.call(wait: 5000), harness.call(wait: 5000))
        harness.gate.breaker.tripLocally(.limit, forMilliseconds: 1000, now: harness.now)
        #expect(harness.admit(first) == [])
        #expect(harness.admit(second) == [])
        #expect(first.stage == .pause)
        harness.now = harness.now.advanced(byMilliseconds: 1001)
        #expect(harness.resume() == ["proceed 1", "proceed 2"])
        #expect(harness.waiting == 0)
    }

    @Test("Calls whose deadline is before the end of the pause are refused immediately")
    func pauseTooLong() {
        let policy = LimitPolicy(action: .trip, pause: .seconds(1) ... .seconds(1))
        let harness = GateHarness(Self.definition(onLimit: policy))
        harness.gate.breaker.tripLocally(.limit, forMilliseconds: 10_000, now: harness.now)
        let call = harness.call(wait: 5000)
        #expect(harness.admit(call) == ["refuse 1 open"])
    }

    @Test("A service without limits grants immediately, and one that is removed fails its calls")
    func withoutLimits() {
        let harness = GateHarness(Self.definition(limited: false))
        let (first, second) = (harness.call(), harness.call())
        #expect(harness.admit(first) == ["grant 1"])
        _ = harness.gate.close()
        #expect(harness.admit(second) == ["fail 2"])
    }

    @Test("No call starts to wait while the sidecar shuts down")
    func shuttingDown() {
        let harness = GateHarness(Self.definition(concurrency: 1))
        let first = harness.call()
        _ = harness.admit(first)
        _ = harness.granted(first)
        _ = harness.issue(first)
        harness.gate.isShuttingDown = true
        let second = harness.call(wait: 5000)
        #expect(harness.admit(second) == ["refuse 2 busy"])
    }

    @Test("A trial permit whose half-open time is over is returned, and the call proceeds under the new generation")
    func staleTrial() {
        let harness = GateHarness(Self.definition())
        harness.apply(.halfOpen, generation: 3)
        let call = harness.call()
        _ = harness.admit(call)
        #expect(harness.asksForTrial())
        _ = harness.trial(call, .granted)
        harness.apply(.closed, generation: 4)
        #expect(harness.granted(call) == ["return trial of 3", "grant 1"])
    }

    @Test("A call granted by the limits keeps its charge while it requests a trial permit, and refunds it without one")
    func trialAfterLimits() {
        let harness = GateHarness(Self.definition())
        let call = harness.call()
        _ = harness.admit(call)
        harness.apply(.halfOpen, generation: 3)
        #expect(harness.granted(call) == ["ask trial 1"])
        #expect(harness.asksForTrial())
        #expect(harness.trial(call, .refused) == ["refund 1", "refuse 1 open"])
    }

    @Test("Without Redis, one trial at a time finds out whether the service works")
    func localTrial() {
        let harness = GateHarness(Self.definition(limited: false))
        harness.apply(.halfOpen, generation: 3)
        let (first, second) = (harness.call(), harness.call())
        _ = harness.admit(first)
        _ = harness.admit(second)
        #expect(harness.asksForTrial() && harness.asksForTrial())
        #expect(harness.trial(first, .unreachable) == ["grant 1"])
        #expect(harness.trial(second, .unreachable) == ["refuse 2 open"])
    }

    @Test("A permit that is never reported frees its slot when it lapses")
    func unreportedPermitFreesSlot() {
        let harness = GateHarness(Self.definition(limited: false, concurrency: 1))
        let first = harness.call()
        _ = harness.admit(first)
        _ = harness.issue(first)
        let second = harness.call(wait: 3_600_000)
        #expect(harness.admit(second) == [])
        harness.now = harness.gate.nextSlotTimer ?? harness.now
        #expect(harness.slotTimerFired() == ["proceed 2"])
        #expect(harness.permits == 0)
    }

    @Test("A wait for a slot that has ended is answered as busy")
    func slotWaitOver() {
        let harness = GateHarness(Self.definition(limited: false, concurrency: 1))
        let first = harness.call()
        _ = harness.admit(first)
        _ = harness.issue(first)
        _ = harness.admit(harness.call(wait: 100))
        harness.now = harness.now.advanced(byMilliseconds: 100)
        #expect(harness.slotTimerFired() == ["refuse 2 busy"])
    }

    @Test("Callers that never report are refused once the permits are used up")
    func unreported() {
        let harness = GateHarness(Self.definition(limited: false))
        for _ in 0..<ServiceGate.maximumPermits { _ = harness.issue(harness.call()) }
        let call = harness.call()
        #expect(harness.admit(call) == ["refuse \(call.number) unreported"])
    }

    @Test("A limit opens the breaker once and closes it only after half-opening, if nothing else opened it")
    func tripByLimit() {
        let harness = GateHarness(Self.definition(onLimit: LimitPolicy(action: .trip, pause: .seconds(1) ... .seconds(2))))
        #expect(harness.beginLimitTrip() == .seconds(1) ... .seconds(2))
        #expect(harness.beginLimitTrip() == nil)
        harness.gate.breakerChangeEnded()
        harness.apply(.open, cause: "limit", generation: 3)
        #expect(!harness.beginClosingAfterLimit())
        harness.apply(.halfOpen, cause: "limit", generation: 4)
        #expect(harness.beginClosingAfterLimit())
        #expect(!harness.beginClosingAfterLimit())
        harness.gate.breakerChangeEnded()
        harness.apply(.halfOpen, generation: 5)
        #expect(!harness.beginClosingAfterLimit())
    }

    @Test("A Retry-After from the upstream opens the breaker, and a 429 for a subject pauses that subject only")
    func pauseByUpstream() {
        let harness = GateHarness(Self.definition(limited: false))
        let report = OutcomeReport(outcome: .error, status: 429, retryAfterMilliseconds: 5000)
        let (first, second) = (harness.call(subject: "tenant-7"), harness.call())
        let permits = (harness.issue(first), harness.issue(second))
        _ = harness.report(report, of: permits.0)
        #expect(harness.retryAfter(of: "tenant-7") == 5000)
        #expect(harness.retryAfter(of: "tenant-8") == nil)
        #expect(harness.report(report, of: permits.1) == .trip(pauseMilliseconds: 5000))
        #expect(harness.report(report, of: permits.1) == nil)
    }

    @Test("A removed service fails its waiting calls and accepts no new ones")
    func removed() {
        let harness = GateHarness(Self.definition(concurrency: 1))
        let first = harness.call()
        _ = harness.admit(first)
        _ = harness.granted(first)
        _ = harness.issue(first)
        let second = harness.call(wait: 5000)
        _ = harness.admit(second)
        let left = harness.gate.close().map(\.number)
        #expect(left == [2])
        #expect(harness.waiting == 0)
    }

    @Test("The name of a permit is exactly 32 hexadecimal digits")
    func permitNames() {
        let id = PermitID((0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210))
        #expect(id.description == "0123456789abcdeffedcba9876543210")
        #expect(PermitID(id.description) == id)
        #expect(PermitID(id.description.uppercased()) == id)
        for wrong in ["", "0", id.description + "0", String(id.description.dropLast()), "+" + id.description.dropFirst()] {
            #expect(PermitID(wrong) == nil)
        }
        #expect(PermitID(String(repeating: "g", count: 32)) == nil)
        #expect(PermitID(String(repeating: "é", count: 16)) == nil)
    }
}

import InterlockCore
import InterlockHTTP
import Testing

@testable import SidecarProxy

@Suite("Protocol of a call through the proxy")
struct ProxiedCallStateMachineTests {
    /// The points at which a call may end early.
    enum Point: CaseIterable {
        case pacer, permit, connecting, sending, sent, relaying, pausing, holding, permitAgain, connectingAgain, resending

        /// Whether an attempt is in progress.
        var isCalling: Bool { ![.pacer, .permit, .pausing, .holding, .permitAgain].contains(self) }
    }

    private static func call(at point: Point, total: Duration? = .seconds(60)) -> SimulatedCall {
        var call = SimulatedCall(hasBody: point == .sending || point == .resending, total: total)
        if point == .pacer { return call }
        call.requestPermit()
        if point == .permit { return call }
        call.grant()
        switch point {
        case .pacer, .permit, .connecting: break
        case .sending, .sent: call.connect()
        case .relaying:
            call.connect()
            call.head(200)
        case .holding:
            call.connect()
            call.head(503)
        case .pausing: call.fail(.connectTimeout)
        case .permitAgain, .connectingAgain:
            call.fail(.connectTimeout)
            call.requestPermit()
            if point == .connectingAgain { call.grant() }
        case .resending:
            call.connect()
            call.fail(.unprocessed)
        }
        return call
    }

    // MARK: The permit

    @Test("The outcome is reported once, whenever the client disconnects", arguments: Point.allCases)
    func clientLeaves(point: Point) {
        var call = Self.call(at: point)
        call.leave()
        #expect(call.machine.isOver && call.isReported)
        #expect((call.outcomes.last?.isUnfinished ?? false) == point.isCalling)
        call.leave()
        call.timerFired()
    }

    @Test("The outcome is reported once, whenever the total timeout ends the call", arguments: Point.allCases)
    func totalTimeout(point: Point) {
        var call = Self.call(at: point)
        if point == .pacer { _ = call.machine.waitForPacer(atMostMilliseconds: 10_000) }
        call.pass(seconds: 60)
        call.timerFired()
        if point == .permit || point == .permitAgain { call.refuse() }
        #expect(call.machine.isOver && call.isReported)
    }

    @Test("The outcome is reported once, whenever the upstream fails", arguments: Point.allCases.filter(\.isCalling))
    func outcomeIsReportedOnce(point: Point) {
        var call = Self.call(at: point)
        call.fail(.broken)
        #expect(call.machine.isOver && call.isReported && call.outcomes.last?.outcome == .error)
        #expect(call.log.last == (point == .relaying ? "broken off" : "failed: broken"))
    }

    @Test("Each attempt has a permit and reports its outcome")
    func eachAttemptHasItsOwnPermit() {
        var call = Self.call(at: .holding)
        #expect(call.isReported && call.outcomes.map(\.status) == [503])
        call.pass(milliseconds: 10)
        call.timerFired()
        call.grant()
        call.connect()
        call.head(200)
        call.end()
        #expect(call.isReported && call.outcomes.map(\.status) == [503, 200])
        #expect(call.log == ["head 2", "end 2"])
    }

    @Test("A resend keeps the permit, and happens once")
    func resendKeepsPermit() {
        var call = Self.call(at: .resending)
        #expect(call.resends == 1 && call.outcomes.isEmpty && call.machine.attemptCount == 1)
        call.connect()
        call.fail(.unprocessed)
        #expect(call.resends == 1 && call.outcomes.count == 1 && call.isReported && call.machine.isOver)
    }

    @Test("A call is resent once, not once per attempt")
    func resendOncePerCall() {
        var call = Self.call(at: .sent)
        call.fail(.unprocessed)
        call.connect()
        call.head(503)
        call.pass(milliseconds: 10)
        call.timerFired()
        call.grant()
        call.connect()
        call.fail(.unprocessed)
        #expect(call.machine.attemptCount == 2 && call.resends == 1)
        #expect(call.machine.isOver && call.isReported)
    }

    @Test("A request whose body is no longer kept is not resent")
    func bodyNotKept() {
        var call = Self.call(at: .sending)
        call.fail(.unprocessed, isBodyBuffered: false)
        #expect(call.resends == 0 && call.isReported && call.machine.isOver)
    }

    @Test("A tunnel reports its permit when it opens")
    func openedTunnelReportsPermit() {
        var call = Self.call(at: .sent)
        call.switchProtocols()
        #expect(call.machine.isOver && call.isReported && call.outcomes.map(\.status) == [101])
        call.leave()
    }

    @Test("A permit granted after the client has disconnected is returned")
    func latePermit() {
        var call = Self.call(at: .permit)
        call.leave()
        call.grant()
        #expect(call.machine.attemptCount == 0 && call.isReported)
    }

    // MARK: The last result

    @Test("A held response reaches the client if its retry does not get a permit", arguments: [true, false])
    func heldResponse(isComplete: Bool) {
        var call = Self.call(at: .holding)
        call.part()
        if isComplete { call.end() }
        #expect(call.log.isEmpty)
        call.pass(milliseconds: 10)
        call.timerFired()
        call.refuse()
        if !isComplete {
            call.part()
            call.end()
        }
        #expect(call.log == ["head 1", "part 1"] + (isComplete ? [] : ["part 1"]) + ["end 1"])
        #expect(call.machine.isOver && call.outcomes.count == 1)
    }

    @Test("A truncated held response is a failure if its retry does not get a permit")
    func brokenHeldResponse() {
        var call = Self.call(at: .holding)
        call.fail(.broken)
        call.pass(milliseconds: 10)
        call.timerFired()
        call.refuse()
        #expect(call.log == ["failed: broken"] && call.machine.isOver)
    }

    @Test("At the deadline a held response is relayed if it is complete, or else the call times out", arguments: [true, false])
    func lateRetry(isComplete: Bool) {
        var call = Self.call(at: .holding)
        if isComplete { call.end() }
        call.pass(seconds: 60)
        call.timerFired()
        #expect(call.log == (isComplete ? ["head 1", "end 1"] : ["failed: total_timeout"]) && call.machine.isOver)
    }

    @Test("No part of an earlier attempt reaches the client once the next one has begun")
    func earlierAttempt() {
        var call = Self.call(at: .holding)
        call.part()
        call.pass(milliseconds: 10)
        call.timerFired()
        call.grant()
        call.part(of: 1)
        call.end(of: 1)
        call.fail(.broken, of: 1)
        #expect(call.machine.connectionEstablished(1, now: call.now) == .refuse)
        call.connect()
        call.head(200)
        call.part(of: 1)
        call.part()
        #expect(call.log == ["head 2", "part 2"])
    }

    @Test(
        "Only an idempotent request without a body is retried, within the attempts and the budget",
        arguments: [
            (false, true, 1, true, true), (true, true, 1, true, false), (false, false, 1, true, false),
            (false, true, 0, true, false), (false, true, 1, false, false),
        ])
    func retryConditions(hasBody: Bool, isIdempotent: Bool, attempts: Int, hasBudget: Bool, isRetried: Bool) {
        var call = SimulatedCall(hasBody: hasBody, isIdempotent: isIdempotent, attempts: attempts)
        call.retries.isAllowed = hasBudget
        call.requestPermit()
        call.grant()
        call.fail(.connectTimeout)
        #expect(call.machine.isOver == !isRetried && call.isReported)
    }

    // MARK: Times

    private static let limits: [(Point, seconds: Int, isBackedUp: Bool, ProxyFailure.Cause)] = [
        (.connecting, 2, false, .connectTimeout), (.sent, 15, false, .firstByteTimeout), (.sending, 300, true, .idleTimeout),
        (.sending, 300, false, .client), (.relaying, 300, false, .idleTimeout),
    ]

    @Test("Each stage has its timeout", arguments: limits)
    func eachStageHasTimeout(point: Point, seconds: Int, isBackedUp: Bool, cause: ProxyFailure.Cause) {
        var call = Self.call(at: point, total: nil)
        call.retries.isAllowed = false
        call.isBackedUp = isBackedUp
        call.pass(milliseconds: Int64(seconds) * 1000 - 1)
        call.timerFired()
        #expect(!call.machine.isOver)
        call.pass(milliseconds: 1)
        #expect(call.machine.timerDeadline.map { $0 <= call.now } ?? false)
        call.timerFired()
        #expect(call.machine.isOver && call.causes == [cause] && call.isReported)
    }

    @Test("A request part waits for a connection, and is kept for a resend until the response begins")
    func requestParts() {
        var call = SimulatedCall(hasBody: true)
        #expect(call.machine.requestPartReceived(now: call.now) == .wait)
        call.requestPermit()
        call.grant()
        #expect(call.machine.requestPartReceived(now: call.now) == .wait)
        call.connect()
        #expect(call.machine.requestPartReceived(now: call.now) == .sendAndBuffer)
        call.head(200)
        #expect(call.machine.requestPartReceived(now: call.now) == .send)
        #expect(call.machine.requestEndReceived(now: call.now) == .proceed)
        #expect(call.machine.requestEndReceived(now: call.now) == .refuse)
        call.end()
        #expect(call.machine.requestPartReceived(now: call.now) == .drop)
    }

    @Test("The outcome of a gRPC call comes from the head, or else from the trailers", arguments: [Int?.none, 503])
    func grpcOutcomeComesFromHeadOrTrailers(inHead: Int?) {
        var call = Self.call(at: .sent)
        call.head(200, isGRPC: true, grpcStatus: inHead)
        call.end(grpcStatus: 500)
        #expect(call.outcomes.map(\.status) == [inHead ?? 500])
    }

    // MARK: Random walk

    @Test("A random walk reports each permit once, and never mixes two responses", arguments: 0..<200)
    func randomWalk(seed: Int) {
        var random = SeededGenerator(state: UInt64(seed) &* 0x9E37_79B9_7F4A_7C15 &+ 1)
        var call = SimulatedCall(hasBody: random.next(3) == 0, isIdempotent: random.next(5) > 0, attempts: random.next(4))
        for _ in 0..<60 {
            call.step(&random)
            call.check()
        }
        call.leave()
        call.check()
        #expect(call.machine.isOver && call.isReported)
    }
}

/// A generator of reproducible random numbers (xorshift64*).
private struct SeededGenerator {
    var state: UInt64

    mutating func next(_ end: Int) -> Int {
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return Int((state &* 0x2545_F491_4F6C_DD1D) >> 33) % end
    }
}

extension ProxyFailure {
    fileprivate static let broken = ProxyFailure(cause: .broken, reason: "")
    fileprivate static let unprocessed: ProxyFailure = {
        var failure = ProxyFailure(cause: .closed, reason: "", verdict: .neutral)
        failure.interruption = .unprocessed
        return failure
    }()
}

/// A call whose actions are recorded instead of executed.
private struct SimulatedCall {
    struct Retries: RetrySource {
        var isAllowed = true

        func drawPauseNanoseconds() -> Int64 { 10_000_000 }
        func takeRetry() -> Bool { isAllowed }
    }

    private(set) var now = Instant(nanoseconds: 1_000_000_000)
    var machine: ProxiedCallStateMachine
    var retries = Retries()
    var isBackedUp = false
    private(set) var outcomes: [OutcomeReport] = []
    private(set) var causes: [ProxyFailure.Cause] = []
    private(set) var resends = 0
    /// The events that have reached the client, each with the number of its attempt.
    private(set) var log: [String] = []
    private let policy: ProxiedCallStateMachine.Policy
    private var granted: UInt64 = 0
    private var unreported: Set<PermitID> = []
    private var heldParts: [Int] = []
    /// The attempts whose answers have reached the client.
    private var relayed: Set<Int> = []

    init(hasBody: Bool = false, isIdempotent: Bool = true, attempts: Int = 1, total: Duration? = .seconds(60)) {
        machine = ProxiedCallStateMachine(.init(hasBody: hasBody, isIdempotent: isIdempotent), startedAt: now)
        policy = .init(UpstreamSettings(url: "", totalTimeout: total, retries: RetrySettings(attempts: attempts)))
    }

    var isReported: Bool { unreported.isEmpty }

    mutating func pass(seconds: Int64 = 0, milliseconds: Int64 = 0) {
        now = now.advanced(byMilliseconds: seconds * 1000 + milliseconds)
    }

    // MARK: Events

    mutating func requestPermit() { perform(machine.permitRequested(policy, maximumWaitMilliseconds: 5000, now: now)) }

    mutating func grant() {
        granted += 1
        let permit = PermitID((0, granted))
        guard machine.permitGranted(permit, policy, now: now) == .proceed else { return }
        unreported.insert(permit)
        heldParts = []
    }

    mutating func refuse() { perform(machine.permitRefused(now: now)) }

    mutating func connect() { _ = machine.connectionEstablished(machine.attemptCount, now: now) }

    mutating func head(_ status: Int, isGRPC: Bool = false, grpcStatus: Int? = nil, of number: Int? = nil) {
        let number = number ?? machine.attemptCount
        let response = ProxiedCallStateMachine.Response(status: status, isGRPC: isGRPC, grpcStatus: grpcStatus)
        let (action, report) = machine.responseHeadReceived(response, of: number, now: now, retries: retries)
        note(report)
        if action == .relay { relay("head", number) }
    }

    mutating func part(of number: Int? = nil) {
        let number = number ?? machine.attemptCount
        switch machine.responsePartReceived(10, of: number, now: now) {
        case .drop: break
        case .relay: relay("part", number)
        case .hold: heldParts.append(number)
        }
    }

    mutating func end(grpcStatus: Int? = nil, of number: Int? = nil) {
        let number = number ?? machine.attemptCount
        let (action, report) = machine.responseEndReceived(of: number, grpcStatus: grpcStatus)
        note(report)
        if action == .relay { relay("end", number) }
    }

    mutating func fail(_ failure: ProxyFailure, isBodyBuffered: Bool = true, of number: Int? = nil) {
        perform(
            machine.upstreamFailed(
                failure, number ?? machine.attemptCount, isBodyBuffered: isBodyBuffered, now: now, retries: retries))
    }

    mutating func switchProtocols() { note(machine.protocolSwitched(machine.attemptCount, status: 101, now: now)) }

    mutating func timerFired() { perform(machine.timerFired(now: now, isBackedUp: isBackedUp, retries: retries)) }

    mutating func leave() { perform(machine.clientLeft(now: now)) }

    // MARK: Actions

    private mutating func perform(_ action: ProxiedCallStateMachine.Action) {
        switch action {
        case .none, .setTimer, .acquirePermit: break
        case .requestPermit: requestPermit()
        case .resend: resends += 1
        case .fail(let failure, let report, let consequence):
            note(report)
            causes.append(failure.cause)
            switch consequence {
            case .pause: break
            case .respond: log.append("failed: \(failure.cause.rawValue)")
            case .abort: log.append("broken off")
            }
        case .giveUp(let report, _): note(report)
        case .respond(let failure): log.append("failed: \(failure.cause.rawValue)")
        case .respondOverloaded, .refuse: log.append("refused")
        case .relayHeld(let isComplete):
            relay("head", machine.attemptCount)
            for number in heldParts { relay("part", number) }
            if isComplete { end() }
        }
    }

    private mutating func relay(_ event: String, _ number: Int) {
        log.append("\(event) \(number)")
        relayed.insert(number)
    }

    private mutating func note(_ report: ProxiedCallStateMachine.Report?) {
        guard let report else { return }
        let isFirst = unreported.remove(report.permit) != nil
        #expect(isFirst, "the outcome of a permit is reported twice")
        outcomes.append(report.outcome)
    }

    // MARK: Checks of the random walk

    func check() {
        #expect(unreported.count <= 1)
        if machine.isOver || machine.isWaitingForPermit { #expect(unreported.isEmpty) }
        #expect(relayed.isEmpty || relayed == [machine.attemptCount], "the client has a part of an earlier answer")
    }

    mutating func step(_ random: inout SeededGenerator) {
        let number = random.next(4) == 0 ? random.next(machine.attemptCount + 1) : machine.attemptCount
        isBackedUp = random.next(2) == 0
        retries.isAllowed = random.next(4) > 0
        pass(milliseconds: Int64(random.next(random.next(6) == 0 ? 20_000 : 20)))
        switch random.next(30) {
        case 0...3: requestPermit()
        case 4...6: grant()
        case 7: refuse()
        case 8...10: _ = machine.connectionEstablished(number, now: now)
        case 11: _ = machine.requestPartReceived(now: now)
        case 12: _ = machine.requestEndReceived(now: now)
        case 13...15: head([200, 503, 502, 404][random.next(4)], of: number)
        case 16...18: part(of: number)
        case 19: end(of: number)
        case 20, 21: fail(.connectTimeout, of: number)
        case 22: fail(.unprocessed, isBodyBuffered: random.next(3) > 0, of: number)
        case 23: fail(.broken, of: number)
        case 24: _ = machine.clientBlocked()
        case 25: _ = machine.clientWritable(now: now)
        case 26: if random.next(6) == 0 { switchProtocols() }
        case 27: if random.next(6) == 0 { leave() }
        case 28: if random.next(20) == 0 { machine.reject() }
        default: timerFired()
        }
    }
}

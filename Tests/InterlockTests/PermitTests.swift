import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import RedisClient
import Testing

@Suite("Permits: slots, waits and refunds", .timeLimit(.minutes(2)))
struct PermitTests {
    static let tenPerMinute = LimitDefinition(name: "1m", limit: 10, window: .seconds(60))

    static func service(
        slots: Int? = nil, limits: [LimitDefinition] = [tenPerMinute], onLimit: LimitPolicy = LimitPolicy(),
        lifetime: Duration = .seconds(60), breaker: BreakerSettings = BreakerSettings()
    ) -> ServiceDefinition {
        ServiceDefinition(
            name: "catalog", limits: limits, onLimit: onLimit, concurrency: slots, breaker: breaker, permitLifetime: lifetime)
    }

    /// Acquires a permit, which must be granted.
    static func permit(_ sidecar: Coordinator, wait: Int64 = 0) async throws -> PermitID {
        let decision = try await sidecar.acquirePermit(service: "catalog", waitMilliseconds: wait)
        guard case .granted(let id, _) = decision else { throw InterlockError(.other, "the permit was refused: \(decision)") }
        return id
    }

    /// Returns why a permit was refused and when to retry; `nil` if it was granted.
    static func refusal(
        _ sidecar: Coordinator, wait: Int64 = 0
    ) async throws -> (reason: PermitResult.Reason, retryAfter: Int64)? {
        guard
            case .refused(let reason, _, let retryAfter) = try await sidecar.acquirePermit(
                service: "catalog", waitMilliseconds: wait)
        else { return nil }
        return (reason, retryAfter)
    }

    static func end(_ permit: PermitID, _ sidecar: Coordinator, _ outcome: Outcome = .ok) async throws {
        _ = try await sidecar.reportPermit(service: "catalog", permit: permit, OutcomeReport(outcome: outcome))
    }

    /// Waits until `expected` calls are waiting for a slot.
    static func waitUntilWaiting(_ expected: Int, in sidecar: Coordinator) async throws {
        try await eventually(within: .seconds(10), "\(expected) calls wait") {
            await sidecar.status.waitingPermitCount == expected
        }
    }

    static func waitUntilRemaining(_ expected: Int64, in sidecar: Coordinator) async throws {
        try await eventually(within: .seconds(10), "\(expected) calls remain in the window") {
            try await sidecar.peek(service: "catalog").remaining == expected
        }
    }

    // MARK: Slots

    @Test("A long queue for a slot is answered in order when the breaker opens")
    func longQueue() async throws {
        var service = Self.service(slots: 1, limits: [])
        service.onLimit.maximumWaiting = 2000
        try await Fleet.run(services: [service]) { fleet in
            let sidecar = fleet.sidecars[0]
            let first = try await Self.permit(sidecar)
            let answeredCalls = try await sidecar.eventLoop.submit {
                let answeredCalls = NIOLoopBoundBox<[UInt64]>([], eventLoop: sidecar.eventLoop)
                let coordinator = sidecar.loopBound()
                let reference = try coordinator.service("catalog").get()
                for number in 0..<UInt64(2000) {
                    let completion = Completion<PermitResult>(tag: number) { number, result in
                        if case .refused(.open, _, _) = result { answeredCalls.value.append(number) }
                        return true
                    }
                    _ = coordinator.acquirePermit(
                        reference, cost: 1, subject: nil, waitMilliseconds: 20_000, now: coordinator.now(),
                        completion: completion)
                }
                return answeredCalls
            }.get()
            try await Self.waitUntilWaiting(2000, in: sidecar)
            _ = try await sidecar.forceBreaker(service: "catalog", to: .open, by: "operator")
            try await Self.end(first, sidecar)
            let order = try await sidecar.eventLoop.submit { answeredCalls.value }.get()
            #expect(order == Array(0..<2000))
        }
    }

    @Test("Each slot allows one permit, and a further call is refused as busy immediately and does not take from the limit")
    func furtherCallIsBusy() async throws {
        try await Fleet.run(services: [Self.service(slots: 2)]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await Self.permit(sidecar)
            _ = try await Self.permit(sidecar)
            let refusal = try #require(try await Self.refusal(sidecar))
            #expect(refusal.reason == .busy)
            #expect((Bulkhead.minimumRetryMilliseconds...Bulkhead.maximumRetryMilliseconds).contains(refusal.retryAfter))
            let remaining = try await sidecar.peek(service: "catalog").remaining
            #expect(remaining == 8)
        }
    }

    @Test("A service without limits has slots too")
    func slotsWithoutLimits() async throws {
        try await Fleet.run(services: [Self.service(slots: 1, limits: [])]) { fleet in
            let sidecar = fleet.sidecars[0]
            let first = try await Self.permit(sidecar)
            let refusal = try await Self.refusal(sidecar)
            #expect(refusal?.reason == .busy)
            try await Self.end(first, sidecar)
            _ = try await Self.permit(sidecar)
        }
    }

    @Test("Calls of the same tick that compete for slots get each slot once, and the losers are refunded")
    func competingCallsGetEachSlotOnce() async throws {
        try await Fleet.run(services: [Self.service(slots: 3)]) { fleet in
            let sidecar = fleet.sidecars[0]
            let grantedCount = try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<8 { group.addTask { try await Self.refusal(sidecar) == nil } }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(grantedCount == 3)
            try await Self.waitUntilRemaining(7, in: sidecar)
        }
    }

    @Test("Waiting calls get slots in the order of arrival, one for each report")
    func inOrder() async throws {
        try await Fleet.run(services: [Self.service(slots: 1)]) { fleet in
            let sidecar = fleet.sidecars[0]
            var current = try await Self.permit(sidecar)
            var waiting: [Task<PermitID, any Error>] = []
            for position in Int64(1)...3 {
                waiting.append(Task { try await Self.permit(sidecar, wait: 30_000) })
                try await Self.waitUntilWaiting(Int(position), in: sidecar)
            }
            for waiter in waiting {
                try await Self.end(current, sidecar)
                current = try await waiter.value
                let refusal = try await Self.refusal(sidecar)
                #expect(refusal?.reason == .busy)
            }
        }
    }

    @Test("A wait that times out is refused as busy and does not take from the limit")
    func waitTimesOut() async throws {
        try await Fleet.run(services: [Self.service(slots: 1)]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await Self.permit(sidecar)
            let refusal = try await Self.refusal(sidecar, wait: 100)
            #expect(refusal?.reason == .busy)
            try await Self.waitUntilRemaining(9, in: sidecar)
        }
    }

    @Test("A permit that is never reported frees its slot for a waiting call")
    func lapsedPermitFreesSlot() async throws {
        try await Fleet.run(services: [Self.service(slots: 1, lifetime: .milliseconds(300))]) { fleet in
            let sidecar = fleet.sidecars[0]
            let first = try await Self.permit(sidecar)
            // The wait is shorter than the interval between two full checks.
            _ = try await Self.permit(sidecar, wait: 3000)
            await #expect(throws: InterlockError.self) { try await Self.end(first, sidecar) }
        }
    }

    @Test("Added slots go to waiting calls")
    func addedSlotsGoToWaitingCalls() async throws {
        try await Fleet.run(services: [Self.service(slots: 1)]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await Self.permit(sidecar)
            let waiter = Task { try await Self.permit(sidecar, wait: 30_000) }
            try await Self.waitUntilWaiting(1, in: sidecar)
            try await sidecar.reload(services: [Self.service(slots: 2)])
            _ = try await waiter.value
        }
    }

    @Test("The queue for slots is limited")
    func boundedQueue() async throws {
        try await Fleet.run(services: [Self.service(slots: 1, onLimit: LimitPolicy(maximumWaiting: 1))]) { fleet in
            let sidecar = fleet.sidecars[0]
            let first = try await Self.permit(sidecar)
            let waiter = Task { try await Self.permit(sidecar, wait: 30_000) }
            try await Self.waitUntilWaiting(1, in: sidecar)
            let refusal = try await Self.refusal(sidecar, wait: 30_000)
            #expect(refusal?.reason == .busy)
            try await Self.waitUntilRemaining(9, in: sidecar)
            try await Self.end(first, sidecar)
            _ = try await waiter.value
        }
    }

    @Test("When the breaker opens while a call waits for a slot, the call is refused and does not take from the limit")
    func breakerOpensMeanwhile() async throws {
        try await Fleet.run(services: [Self.service(slots: 1)]) { fleet in
            let sidecar = fleet.sidecars[0]
            let first = try await Self.permit(sidecar)
            let waiter = Task { try await Self.refusal(sidecar, wait: 30_000)?.reason }
            try await Self.waitUntilWaiting(1, in: sidecar)
            _ = try await sidecar.forceBreaker(service: "catalog", to: .open, by: "test")
            try await Self.end(first, sidecar)
            let reason = try await waiter.value
            #expect(reason == .open)
            try await Self.waitUntilRemaining(9, in: sidecar)
        }
    }

    @Test("A call that would wait but does not get a trial after failures is refused")
    func noTrial() async throws {
        let breaker = BreakerSettings(minimumCalls: 2, openFor: .milliseconds(100) ... .milliseconds(100), halfOpenPermits: 1)
        try await Fleet.run(services: [Self.service(limits: [], breaker: breaker)]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<2 { try await Self.end(try await Self.permit(sidecar), sidecar, .error) }
            try await eventually(within: .seconds(10), "the breaker half-opens") {
                try await sidecar.breaker(service: "catalog").fleet.state == .halfOpen
            }
            _ = try await Self.permit(sidecar)
            let refusal = try await Self.refusal(sidecar, wait: 50_000)
            #expect(refusal?.reason == .open)
        }
    }

    // MARK: Giving up

    /// Cancels a call that waits for a slot or for Redis.
    private static func giveUp(_ waiter: Task<PermitID, any Error>) async {
        waiter.cancel()
        await #expect(throws: CancellationError.self) { try await waiter.value }
    }

    @Test("A call that gives up its wait for a slot passes its turn to the next one")
    func givesUpSlot() async throws {
        try await Fleet.run(services: [Self.service(slots: 1)]) { fleet in
            let sidecar = fleet.sidecars[0]
            let first = try await Self.permit(sidecar)
            let leaver = Task { try await Self.permit(sidecar, wait: 30_000) }
            try await Self.waitUntilWaiting(1, in: sidecar)
            let stayer = Task { try await Self.permit(sidecar, wait: 30_000) }
            try await Self.waitUntilWaiting(2, in: sidecar)
            await Self.giveUp(leaver)
            try await Self.waitUntilWaiting(1, in: sidecar)
            try await Self.end(first, sidecar)
            _ = try await stayer.value
        }
    }

    @Test("A call that gives up during the limits' decision is refunded")
    func givesUpLimits() async throws {
        try await Fleet.run(services: [Self.service(slots: 1)]) { fleet in
            let sidecar = fleet.sidecars[0]
            let before = await sidecar.status.redisCommandCount
            await fleet.server.pause()
            let leaver = Task { try await Self.permit(sidecar, wait: 30_000) }
            try await eventually(within: .seconds(10), "Redis received a command") {
                await sidecar.status.redisCommandCount > before
            }
            await Self.giveUp(leaver)
            await fleet.server.resume()
            try await Self.waitUntilRemaining(10, in: sidecar)
            _ = try await Self.permit(sidecar)
        }
    }

    @Test("A call that gives up during its request for a trial returns the trial")
    func givesUpTrial() async throws {
        let breaker = BreakerSettings(minimumCalls: 2, openFor: .milliseconds(100) ... .milliseconds(100), halfOpenPermits: 1)
        try await Fleet.run(services: [Self.service(limits: [], breaker: breaker)]) { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<2 { try await Self.end(try await Self.permit(sidecar), sidecar, .error) }
            try await eventually(within: .seconds(10), "the breaker half-opens") {
                try await sidecar.breaker(service: "catalog").fleet.state == .halfOpen
            }
            let before = await sidecar.status.redisCommandCount
            await fleet.server.pause()
            let leaver = Task { try await Self.permit(sidecar, wait: 30_000) }
            try await eventually(within: .seconds(10), "Redis received a command") {
                await sidecar.status.redisCommandCount > before
            }
            await Self.giveUp(leaver)
            await fleet.server.resume()
            try await eventually(within: .seconds(10), "the trial's slot is free") {
                try await fleet.cli("ZCARD", "interlock:breaker:{catalog}:trials").integer == 0
            }
            try await eventually(within: .seconds(10), "another call is granted") { try await Self.refusal(sidecar) == nil }
        }
    }

    @Test("Waiting calls are answered when the sidecar shuts down")
    func shutsDown() async throws {
        try await Fleet.run(of: 2, services: [Self.service(slots: 1)]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await Self.permit(sidecar)
            let waiter = Task { try await Self.permit(sidecar, wait: 30_000) }
            try await Self.waitUntilWaiting(1, in: sidecar)
            await sidecar.drain()
            let error = await #expect(throws: InterlockError.self) { try await waiter.value }
            #expect(error?.code == .unavailable)
            try await Self.waitUntilRemaining(9, in: fleet.sidecars[1])
        }
    }

    @Test("Calls that wait for a service are answered when it is removed from the configuration")
    func waitingCallsAreAnsweredOnRemoval() async throws {
        try await Fleet.run(services: [Self.service(slots: 1)]) { fleet in
            let sidecar = fleet.sidecars[0]
            _ = try await Self.permit(sidecar)
            let waiter = Task { try await Self.permit(sidecar, wait: 30_000) }
            try await Self.waitUntilWaiting(1, in: sidecar)
            try await sidecar.reload(services: [])
            let error = await #expect(throws: InterlockError.self) { try await waiter.value }
            #expect(error?.code == .unknownService)
            let inFlight = await sidecar.status.inFlightPermitCount
            #expect(inFlight == 0)
        }
    }
}

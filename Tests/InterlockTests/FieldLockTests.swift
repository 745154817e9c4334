import Interlock
import InterlockCore
import InterlockProcesses
import InterlockTesting
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import RedisClient
import Testing

/// Tests known problems of other lock services and libraries, with at least one test for each number. Jumps of Redis'
/// own clock are tested in `ClockJumpTests`.
@Suite("What goes wrong with locks elsewhere", .timeLimit(.minutes(2)))
struct FieldLockTests {
    /// The longest time that dead processes may delay a waiter: more than twice what is needed, for busy machines.
    private static let holdUp = Duration.seconds(5)

    // MARK: 3. Waiters

    @Test("3. a missed wake-up leaves waiters stuck: here they have the lock although nobody could tell them")
    func missedWakeUp() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let clock = ContinuousClock()
            var lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: 600_000)))
            for turn in 0..<5 {
                let holder = fleet.sidecars[turn % 2]
                let waiter = fleet.sidecars[(turn + 1) % 2]
                async let next = waiter.acquireLock(try LockRequest("orders", ttl: 600_000, wait: 30_000))
                try await Self.untilTicketsStand(1, in: fleet)
                try await fleet.cli("CLIENT", "KILL", "TYPE", "pubsub")
                let released = clock.now
                let isReleased = try await holder.releaseLock(name, token: lease.token)
                #expect(isReleased)
                lease = try #require(try await next)
                Self.report("a waiter who could not be told", since: released)
                #expect(clock.now - released < Self.holdUp)
                try await fleet.untilEveryoneListens()
            }
        }
    }

    @Test("3. dead waiters block a fair queue: here tickets whose sidecar is gone are passed over", arguments: [1, 50])
    func deadTickets(count: Int) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let clock = ContinuousClock()
            let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders")))
            try await Self.plantTickets(count, in: fleet)
            async let next = fleet.sidecars[1].acquireLock(try LockRequest("orders", wait: 30_000))
            try await Self.untilTicketsStand(count + 1, in: fleet)
            let released = clock.now
            let isReleased = try await fleet.sidecars[0].releaseLock(name, token: lease.token)
            #expect(isReleased)
            let granted = try #require(try await next)
            Self.report("a waiter behind \(count) dead", since: released)
            #expect(clock.now - released < Self.holdUp)
            #expect(granted.fence > lease.fence)
        }
    }

    @Test("3. dead waiters block a fair queue: here a lock that is free is not kept for them")
    func deadTicketsAtFreeLock() async throws {
        try await Fleet.run { fleet in
            try await Self.plantTickets(3, in: fleet)
            let lease = try await fleet.sidecars[0].acquireLock(try LockRequest("orders"))
            #expect(lease != nil)
        }
    }

    @Test("3. dead waiters block a fair queue: here one whose process stands still is passed over")
    func frozenWaiter() async throws {
        try await Fleet.run(of: 2) { fleet in
            try await Self.withSidecarOfItsOwnThread(in: fleet) { frozen in
                let name = try ResourceName("orders")
                let clock = ContinuousClock()
                let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders")))
                let stuck = Task { try await frozen.acquireLock(try LockRequest("orders", wait: 60_000)) }
                try await Self.untilTicketsStand(1, in: fleet)
                async let next = fleet.sidecars[1].acquireLock(try LockRequest("orders", wait: 30_000))
                try await Self.untilTicketsStand(2, in: fleet)
                let freeze = try await Freeze(of: frozen.eventLoop)
                defer { freeze.thaw() }
                stuck.cancel()
                let released = clock.now
                let isReleased = try await fleet.sidecars[0].releaseLock(name, token: lease.token)
                #expect(isReleased)
                let granted = try #require(try await next)
                Self.report("a waiter behind one that stands still", since: released)
                #expect(clock.now - released < Self.holdUp)
                #expect(granted.fence > lease.fence)
            }
        }
    }

    // MARK: 4. to 6. Answers

    @Test("4. a timed-out acquire had in fact won, and blocks its own caller: here nobody has what nobody was given")
    func timedOutWinner() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let clock = ContinuousClock()
            let holder = fleet.sidecars[0]
            var wins = 0
            for turn in 0..<50 {
                let waiter = fleet.sidecars[turn % 2]
                // Leftovers of the previous round are gone within a second.
                let lease = try #require(try await holder.acquireLock(try LockRequest("orders", wait: 1000)), "turn \(turn)")
                let waitEnds = clock.now + .milliseconds(20)
                async let answer = waiter.acquireLock(try LockRequest("orders", wait: 20))
                // The release comes shortly before, at, or after the end of the wait.
                let moment = waitEnds + .milliseconds(turn % 5 - 2)
                try await eventually("the wait is about to end") { clock.now >= moment }
                let isReleased = try await holder.releaseLock(name, token: lease.token)
                #expect(isReleased)
                guard let won = try await answer else { continue }
                wins += 1
                let token = try await fleet.cli("GET", "interlock:lock:{orders}").text
                #expect(token == won.token)
                let isGivenBack = try await waiter.releaseLock(name, token: won.token)
                #expect(isGivenBack)
            }
            print("4. \(wins) of 50 waits ended with the lock")
            let last = try #require(try await holder.acquireLock(try LockRequest("orders", wait: 1000)))
            let isReleased = try await holder.releaseLock(name, token: last.token)
            #expect(isReleased)
            try await eventually(within: .seconds(5), "nobody holds it or waits for it") {
                try await holder.inspectLock(name) == nil
            }
        }
    }

    @Test("5. held, unreachable, expired and cancelled are told apart")
    func toldApart() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]

            let brief = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 300)))
            try await eventually("the lease ends") { try await fleet.cli("EXISTS", "interlock:lock:{orders}").integer == 0 }
            let renewal = try await sidecar.renewLock(name, token: brief.token, ttl: 300)
            #expect(renewal == nil, "expired")
            let isReleased = try await sidecar.releaseLock(name, token: brief.token)
            #expect(!isReleased, "expired")

            let holder = try #require(try await fleet.sidecars[1].acquireLock(try LockRequest("orders", ttl: 600_000)))
            let refused = try await sidecar.acquireLock(try LockRequest("orders"))
            #expect(refused == nil, "held")

            let caller = Task { try await sidecar.acquireLock(try LockRequest("orders", wait: 60_000)) }
            try await Self.untilTicketsStand(1, in: fleet)
            caller.cancel()
            await #expect(throws: CancellationError.self) { try await caller.value }

            let noLease = await Self.code { _ = try await sidecar.acquireLock(try LockRequest("orders", ttl: 0)) }
            #expect(noLease == .invalid)
            let noWait = await Self.code { _ = try await sidecar.acquireLock(try LockRequest("orders", wait: -1)) }
            #expect(noWait == .invalid)

            await fleet.server.kill()
            let acquiring = await Self.code { _ = try await sidecar.acquireLock(try LockRequest("orders")) }
            #expect(acquiring == .unavailable)
            let renewing = await Self.code { _ = try await sidecar.renewLock(name, token: holder.token, ttl: 1000) }
            #expect(renewing == .unavailable)
            let releasing = await Self.code { _ = try await sidecar.releaseLock(name, token: holder.token) }
            #expect(releasing == .unavailable)
        }
    }

    @Test("6. an acquire never hands out a lease that is already over", arguments: [Int64(5), 10, 20])
    func neverOver(ttl: Int64) async throws {
        try await Fleet.run { fleet in
            var refusals = 0
            for _ in 0..<3 {
                try await fleet.cli("CLIENT", "PAUSE", "300", "ALL")
                do {
                    if let lease = try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: ttl)) {
                        // A lease is granted only if the test itself was held up until the pause was nearly over.
                        #expect(lease.validMilliseconds > 0)
                    } else {
                        refusals += 1
                    }
                } catch let error as InterlockError {
                    #expect(error.code == .unavailable)
                    refusals += 1
                }
            }
            #expect(refusals > 0)
            try await eventually(within: .seconds(5), "nothing is left of leases that nobody was given") {
                try await fleet.cli("EXISTS", "interlock:lock:{orders}").integer == 0
            }
        }
    }

    // MARK: 7. and 8. Costs

    @Test("7. waiting costs Redis nothing, and a hand-over among two hundred waiters three commands at most")
    func cheapWaiting() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let clock = ContinuousClock()
            let handOvers = 20
            let first = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: 600_000)))
            let (grants, granted) = AsyncStream.makeStream(of: Lease.self)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<200 {
                    let sidecar = fleet.sidecars[caller % 2]
                    group.addTask {
                        // Callers that still wait at the end are cancelled.
                        let request = try LockRequest("orders", ttl: 600_000, wait: 60_000)
                        if let lease = try? await sidecar.acquireLock(request) { granted.yield(lease) }
                    }
                }
                try await eventually("two hundred wait") { await Self.waiting(in: fleet) == 200 }
                try await Self.untilTicketsStand(2, in: fleet)

                let began = clock.now
                let beforeIdling = await Self.commandsSent(by: fleet)
                try await eventually("two seconds have passed") { clock.now - began >= .seconds(2) }
                let idling = await Self.commandsSent(by: fleet) - beforeIdling
                print("7. \(idling) commands while two hundred waited for \(clock.now - began)")
                #expect(idling <= Self.upkeep(since: began))

                let handing = clock.now
                let beforeHanding = await Self.commandsSent(by: fleet)
                _ = try await fleet.sidecars[0].releaseLock(name, token: first.token)
                var handed = 0
                for await lease in grants {
                    handed += 1
                    guard handed < handOvers else { break }
                    _ = try await fleet.sidecars[handed % 2].releaseLock(name, token: lease.token)
                }
                let spent = await Self.commandsSent(by: fleet) - beforeHanding
                print("7. \(spent) commands for \(handed) hand-overs in \(clock.now - handing)")
                #expect(handed == handOvers)
                #expect(spent <= Int64(3 * handOvers) + Self.upkeep(since: handing))
                group.cancelAll()
            }
        }
    }

    @Test("8. no immortal counters: every key of a lock ends, its fence within a day, and fences rise without it")
    func noImmortalKeys() async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            var last: Int64 = 0
            for turn in 0..<4 {
                let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", wait: 1000)))
                #expect(lease.fence > last)
                last = lease.fence
                let isReleased = try await sidecar.releaseLock(name, token: lease.token)
                #expect(isReleased)
                let fenceLasts = try await fleet.cli("PTTL", "interlock:fence:{orders}").integer ?? 0
                #expect((1...86_400_000).contains(fenceLasts))
                if turn % 2 == 1 { try await fleet.cli("FLUSHALL") }
            }

            let held = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
            async let next = sidecar.acquireLock(try LockRequest("orders", wait: 20_000))
            try await Self.untilTicketsStand(1, in: fleet)
            let keys = try await fleet.cli("KEYS", "interlock:*{orders}*").array?.compactMap(\.text) ?? []
            #expect(Set(keys).isSuperset(of: ["lock", "fence", "queue"].map { "interlock:\($0):{orders}" }))
            for key in keys {
                let lasts = try await fleet.cli("PTTL", key).integer ?? -1
                #expect(lasts > 0, "\(key)")
            }
            _ = try await sidecar.releaseLock(name, token: held.token)
            let served = try await next
            #expect(served != nil)
        }
    }

    // MARK: 10. Clocks

    @Test("10. a clock jump expires every lock: here a holder's own deadline is read off the monotonic clock alone")
    func monotonicDeadline() async throws {
        try await Fleet.run { fleet in
            let time = ManualTime()
            let sidecar = Coordinator(
                configuration: InterlockConfiguration(redis: fleet.server.configuration),
                eventLoop: fleet.sidecars[0].eventLoop, time: TimeSource { time.now })
            await sidecar.start()
            await sidecar.untilReady()
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 30_000)))
            // All other clocks advanced during the request; reading any of them would have shortened the validity.
            #expect(lease.validMilliseconds == 30_000 - LeaseValidity.drift(ofTTL: 30_000))
            let heldBefore = await sidecar.status.locksHeld
            #expect(heldBefore == 1)
            time.advance(byMilliseconds: lease.validMilliseconds)
            let heldAfter = await sidecar.status.locksHeld
            #expect(heldAfter == 0)
            // Redis' clock has not advanced, so the key still exists.
            let token = try await fleet.cli("GET", "interlock:lock:{orders}").text
            #expect(token == lease.token)
            await sidecar.stop()
        }
    }

    @Test("a lease shorter than the shortest is refused, with the setting that bounds it and what was probably meant")
    func tooShort() async throws {
        try await Fleet.run(locks: LockSettings(minimumTTL: .milliseconds(100))) { fleet in
            let name = try ResourceName("orders")
            let error = await #expect(throws: InterlockError.self) {
                try await fleet.sidecars[0].acquireLock(LockRequest(name: name, ttl: 30))
            }
            #expect(error?.code == .invalid)
            #expect(
                error?.message
                    == "expected a ttl from 100 to 3600000 ms (locks.min_ttl, locks.max_ttl), got 30; 30 s is 30000 ms")
            let lease = try await fleet.sidecars[0].acquireLock(LockRequest(name: name, ttl: 100))
            #expect(lease != nil)
        }
    }
}

extension FieldLockTests {
    /// Blocks an event loop as if its process were stopped; the kernel still accepts what arrives on its connections.
    private final class Freeze: Sendable {
        private let hasBegun = NIOLockedValueBox(false)
        private let isOver = ConditionLock(value: false)

        init(of eventLoop: any EventLoop) async throws {
            eventLoop.execute { [hasBegun, isOver] in
                hasBegun.withLockedValue { $0 = true }
                isOver.lock(whenValue: true)
                isOver.unlock()
            }
            try await eventually("the event loop stands still") { hasBegun.withLockedValue { $0 } }
        }

        func thaw() {
            isOver.lock()
            isOver.unlock(withValue: true)
        }
    }

    /// Runs `body` with another sidecar of the fleet, on its own thread.
    private static func withSidecarOfItsOwnThread(in fleet: Fleet, _ body: (Coordinator) async throws -> Void) async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let sidecar = Coordinator(
            configuration: InterlockConfiguration(redis: fleet.server.configuration), eventLoop: group.next())
        await sidecar.start()
        await sidecar.untilReady()
        let outcome: Result<Void, any Error>
        do {
            let listeners = Int64(fleet.sidecars.count + 1)
            try await eventually("it has subscribed") {
                try await fleet.cli("PUBSUB", "NUMSUB", sidecar.keys.events).array?.last?.integer == listeners
            }
            try await body(sidecar)
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        await sidecar.stop()
        try await group.shutdownGracefully()
        try outcome.get()
    }

    /// Inserts tickets of sidecars that do not exist at the head of the lock's queue.
    private static func plantTickets(_ count: Int, in fleet: Fleet) async throws {
        for number in 1...count {
            // A ticket is `<sidecar ID>/<32 hex>`, and its score is the microsecond of its arrival.
            let ticket = "deadbeef\(1000 + number)/0123456789abcdef0123456789abcdef"
            try await fleet.cli("ZADD", "interlock:queue:{orders}", "\(number)", ticket)
        }
    }

    private static func untilTicketsStand(_ count: Int, in fleet: Fleet) async throws {
        try await eventually("\(count) tickets stand in the queue") {
            try await fleet.cli("ZCARD", "interlock:queue:{orders}").integer == Int64(count)
        }
    }

    private static func waiting(in fleet: Fleet) async -> Int {
        var count = 0
        for sidecar in fleet.sidecars { count += await sidecar.status.locksWaiting }
        return count
    }

    private static func commandsSent(by fleet: Fleet) async -> Int64 {
        var count: Int64 = 0
        for sidecar in fleet.sidecars { count += await sidecar.status.redisCommands }
        return count
    }

    /// The maximum number of commands for the upkeep of two sidecars: heartbeats and lock checks every five seconds.
    private static func upkeep(since start: ContinuousClock.Instant) -> Int64 {
        let rounds = Int64((ContinuousClock.now - start) / Duration.seconds(5)) + 2
        return 8 * rounds
    }

    private static func report(_ waiter: String, since start: ContinuousClock.Instant) {
        print("3. \(waiter) has it \(ContinuousClock.now - start) after the release")
    }

    /// Returns the code of the `InterlockError` that `call` throws; `nil` if it succeeds or throws another error.
    private static func code(of call: () async throws -> Void) async -> InterlockError.Code? {
        do {
            try await call()
            return nil
        } catch {
            return (error as? InterlockError)?.code
        }
    }
}

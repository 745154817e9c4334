import Interlock
import InterlockCore
import InterlockProcesses
import InterlockTesting
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import RedisClient
import Testing

/// Tests that known problems of other lock services and libraries do not occur. Jumps of Redis's own clock are tested
/// in `ClockJumpTests`.
@Suite("Known problems of other lock services", .timeLimit(.minutes(2)))
struct LockPeerIssueTests {
    /// The maximum delay that dead processes may cause a waiter. A busy machine gets more than twice the usual time.
    private static let maximumDelay = Duration.seconds(5)

    // MARK: Waiters

    @Test("Waiters get the lock after a missed wake-up")
    func missedWakeUp() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let clock = ContinuousClock()
            var lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: 600_000)))
            for round in 0..<5 {
                let holder = fleet.sidecars[round % 2]
                let waiter = fleet.sidecars[(round + 1) % 2]
                async let next = waiter.acquireLock(try LockRequest("orders", ttl: 600_000, wait: 30_000))
                try await Self.waitUntilTicketsAreQueued(1, in: fleet)
                try await fleet.cli("CLIENT", "KILL", "TYPE", "pubsub")
                let releaseTime = clock.now
                let isReleased = try await holder.releaseLock(name, token: lease.token)
                #expect(isReleased)
                lease = try #require(try await next)
                Self.report("a waiter that missed its notification", since: releaseTime)
                #expect(clock.now - releaseTime < Self.maximumDelay)
                try await fleet.waitUntilAllSubscribed()
            }
        }
    }

    @Test("Tickets of dead sidecars are skipped", arguments: [1, 50])
    func deadTickets(count: Int) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let clock = ContinuousClock()
            let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders")))
            try await Self.plantTickets(count, in: fleet)
            async let next = fleet.sidecars[1].acquireLock(try LockRequest("orders", wait: 30_000))
            try await Self.waitUntilTicketsAreQueued(count + 1, in: fleet)
            let releaseTime = clock.now
            let isReleased = try await fleet.sidecars[0].releaseLock(name, token: lease.token)
            #expect(isReleased)
            let nextLease = try #require(try await next)
            Self.report("a waiter behind \(count) dead sidecars", since: releaseTime)
            #expect(clock.now - releaseTime < Self.maximumDelay)
            #expect(nextLease.fence > lease.fence)
        }
    }

    @Test("A free lock is not reserved for dead sidecars")
    func deadTicketsAtFreeLock() async throws {
        try await Fleet.run { fleet in
            try await Self.plantTickets(3, in: fleet)
            let lease = try await fleet.sidecars[0].acquireLock(try LockRequest("orders"))
            #expect(lease != nil)
        }
    }

    @Test("A waiter whose process is paused is skipped")
    func frozenWaiter() async throws {
        try await Fleet.run(of: 2) { fleet in
            try await Self.withSidecarOnOwnThread(in: fleet) { frozen in
                let name = try ResourceName("orders")
                let clock = ContinuousClock()
                let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders")))
                let stuck = Task { try await frozen.acquireLock(try LockRequest("orders", wait: 60_000)) }
                try await Self.waitUntilTicketsAreQueued(1, in: fleet)
                async let next = fleet.sidecars[1].acquireLock(try LockRequest("orders", wait: 30_000))
                try await Self.waitUntilTicketsAreQueued(2, in: fleet)
                let freeze = try await Freeze(of: frozen.eventLoop)
                defer { freeze.thaw() }
                stuck.cancel()
                let releaseTime = clock.now
                let isReleased = try await fleet.sidecars[0].releaseLock(name, token: lease.token)
                #expect(isReleased)
                let nextLease = try #require(try await next)
                Self.report("a waiter behind a paused one", since: releaseTime)
                #expect(clock.now - releaseTime < Self.maximumDelay)
                #expect(nextLease.fence > lease.fence)
            }
        }
    }

    // MARK: Answers

    @Test("A lock granted after its acquire timed out is released, so that it does not block its own caller")
    func timedOutWinner() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let clock = ContinuousClock()
            let holder = fleet.sidecars[0]
            var wins = 0
            for round in 0..<50 {
                let waiter = fleet.sidecars[round % 2]
                // Keys of the previous round expire within a second.
                let lease = try #require(try await holder.acquireLock(try LockRequest("orders", wait: 1000)), "round \(round)")
                let waitEnds = clock.now + .milliseconds(20)
                async let acquisition = waiter.acquireLock(try LockRequest("orders", wait: 20))
                // The release comes shortly before, at, or after the end of the wait.
                let releaseTime = waitEnds + .milliseconds(round % 5 - 2)
                try await eventually("the wait is about to end") { clock.now >= releaseTime }
                let isReleased = try await holder.releaseLock(name, token: lease.token)
                #expect(isReleased)
                guard let won = try await acquisition else { continue }
                wins += 1
                let token = try await fleet.cli("GET", "interlock:lock:{orders}").text
                #expect(token == won.token)
                let isReleasedByWinner = try await waiter.releaseLock(name, token: won.token)
                #expect(isReleasedByWinner)
            }
            print("\(wins) of 50 waits ended with the lock")
            let last = try #require(try await holder.acquireLock(try LockRequest("orders", wait: 1000)))
            let isReleased = try await holder.releaseLock(name, token: last.token)
            #expect(isReleased)
            try await eventually(within: .seconds(5), "the lock is free") {
                try await holder.inspectLock(name) == nil
            }
        }
    }

    @Test("A held lock, an expired lease, a cancellation and an unreachable Redis are distinguished")
    func distinctErrors() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]

            let brief = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 300)))
            try await eventually("the lease ends") { try await fleet.cli("EXISTS", "interlock:lock:{orders}").integer == 0 }
            let renewal = try await sidecar.renewLock(name, token: brief.token, ttlMilliseconds: 300)
            #expect(renewal == nil, "expired")
            let isReleased = try await sidecar.releaseLock(name, token: brief.token)
            #expect(!isReleased, "expired")

            let holder = try #require(try await fleet.sidecars[1].acquireLock(try LockRequest("orders", ttl: 600_000)))
            let attempt = try await sidecar.acquireLock(try LockRequest("orders"))
            #expect(attempt == nil, "held")

            let caller = Task { try await sidecar.acquireLock(try LockRequest("orders", wait: 60_000)) }
            try await Self.waitUntilTicketsAreQueued(1, in: fleet)
            caller.cancel()
            await #expect(throws: CancellationError.self) { try await caller.value }

            let noLease = await Self.code { _ = try await sidecar.acquireLock(try LockRequest("orders", ttl: 0)) }
            #expect(noLease == .invalid)
            let noWait = await Self.code { _ = try await sidecar.acquireLock(try LockRequest("orders", wait: -1)) }
            #expect(noWait == .invalid)

            await fleet.server.kill()
            let acquiring = await Self.code { _ = try await sidecar.acquireLock(try LockRequest("orders")) }
            #expect(acquiring == .unavailable)
            let renewing = await Self.code {
                _ = try await sidecar.renewLock(name, token: holder.token, ttlMilliseconds: 1000)
            }
            #expect(renewing == .unavailable)
            let releasing = await Self.code { _ = try await sidecar.releaseLock(name, token: holder.token) }
            #expect(releasing == .unavailable)
        }
    }

    @Test("An acquire never returns a lease that has already expired", arguments: [Int64(5), 10, 20])
    func neverExpired(ttl: Int64) async throws {
        try await Fleet.run { fleet in
            var refusals = 0
            for _ in 0..<3 {
                try await fleet.cli("CLIENT", "PAUSE", "300", "ALL")
                do {
                    if let lease = try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: ttl)) {
                        // A lease is granted only if the test itself was delayed until the pause was nearly over.
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
            try await eventually(within: .seconds(5), "undelivered leases have expired") {
                try await fleet.cli("EXISTS", "interlock:lock:{orders}").integer == 0
            }
        }
    }

    // MARK: Costs

    @Test("Waiting sends nothing to Redis, and a hand-over among two hundred waiters costs at most three commands")
    func cheapWaiting() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let clock = ContinuousClock()
            let handOvers = 20
            let first = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: 600_000)))
            let (grants, grantContinuation) = AsyncStream.makeStream(of: Lease.self)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<200 {
                    let sidecar = fleet.sidecars[caller % 2]
                    group.addTask {
                        // Callers that still wait at the end are cancelled.
                        let request = try LockRequest("orders", ttl: 600_000, wait: 60_000)
                        if let lease = try? await sidecar.acquireLock(request) { grantContinuation.yield(lease) }
                    }
                }
                try await eventually("two hundred callers wait") { await Self.waitingCallerCount(in: fleet) == 200 }
                try await Self.waitUntilTicketsAreQueued(2, in: fleet)

                let start = clock.now
                let beforeIdling = await Self.commandsSent(by: fleet)
                try await eventually("two seconds have passed") { clock.now - start >= .seconds(2) }
                let idling = await Self.commandsSent(by: fleet) - beforeIdling
                print("\(idling) commands while two hundred waited for \(clock.now - start)")
                #expect(idling <= Self.upkeep(since: start))

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
                print("\(spent) commands for \(handed) hand-overs in \(clock.now - handing)")
                #expect(handed == handOvers)
                #expect(spent <= Int64(3 * handOvers) + Self.upkeep(since: handing))
                group.cancelAll()
            }
        }
    }

    @Test("Every key of a lock expires, its fence within a day, and fences rise even after that")
    func noImmortalKeys() async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            var last: Int64 = 0
            for round in 0..<4 {
                let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", wait: 1000)))
                #expect(lease.fence > last)
                last = lease.fence
                let isReleased = try await sidecar.releaseLock(name, token: lease.token)
                #expect(isReleased)
                let fenceTTL = try await fleet.cli("PTTL", "interlock:fence:{orders}").integer ?? 0
                #expect((1...86_400_000).contains(fenceTTL))
                if round % 2 == 1 { try await fleet.cli("FLUSHALL") }
            }

            let heldLease = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
            async let next = sidecar.acquireLock(try LockRequest("orders", wait: 20_000))
            try await Self.waitUntilTicketsAreQueued(1, in: fleet)
            let keys = try await fleet.cli("KEYS", "interlock:*{orders}*").array?.compactMap(\.text) ?? []
            #expect(Set(keys).isSuperset(of: ["lock", "fence", "queue"].map { "interlock:\($0):{orders}" }))
            for key in keys {
                let ttl = try await fleet.cli("PTTL", key).integer ?? -1
                #expect(ttl > 0, "\(key)")
            }
            _ = try await sidecar.releaseLock(name, token: heldLease.token)
            let served = try await next
            #expect(served != nil)
        }
    }

    // MARK: Clocks

    @Test("A holder's deadline is measured by the monotonic clock, so that a clock jump expires no lock early")
    func monotonicDeadline() async throws {
        try await Fleet.run { fleet in
            let time = ManualTime()
            let sidecar = Coordinator(
                configuration: InterlockConfiguration(redis: fleet.server.configuration),
                eventLoop: fleet.sidecars[0].eventLoop, time: TimeSource { time.now })
            await sidecar.start()
            await sidecar.waitUntilReady()
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 30_000)))
            // All other clocks advanced during the request; reading any of them would have shortened the validity.
            #expect(lease.validMilliseconds == 30_000 - LeaseValidity.driftMilliseconds(ofTTL: 30_000))
            let heldBefore = await sidecar.status.heldLockCount
            #expect(heldBefore == 1)
            time.advance(byMilliseconds: lease.validMilliseconds)
            let heldAfter = await sidecar.status.heldLockCount
            #expect(heldAfter == 0)
            // The Redis clock has not advanced, so the key still exists.
            let token = try await fleet.cli("GET", "interlock:lock:{orders}").text
            #expect(token == lease.token)
            await sidecar.stop()
        }
    }

    @Test("A ttl below the minimum is rejected with the setting's name and the likely intention")
    func tooShort() async throws {
        try await Fleet.run(locks: LockSettings(minimumTTL: .milliseconds(100))) { fleet in
            let name = try ResourceName("orders")
            let error = await #expect(throws: InterlockError.self) {
                try await fleet.sidecars[0].acquireLock(LockRequest(name: name, ttlMilliseconds: 30))
            }
            #expect(error?.code == .invalid)
            #expect(
                error?.message
                    == "expected a ttl from 100 to 3600000 ms (locks.min_ttl, locks.max_ttl), got 30; 30 s is 30000 ms")
            let lease = try await fleet.sidecars[0].acquireLock(LockRequest(name: name, ttlMilliseconds: 100))
            #expect(lease != nil)
        }
    }
}

extension LockPeerIssueTests {
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
            try await eventually("the event loop is blocked") { hasBegun.withLockedValue { $0 } }
        }

        func thaw() {
            isOver.lock()
            isOver.unlock(withValue: true)
        }
    }

    /// Runs `body` with another sidecar of the fleet, on its own thread.
    private static func withSidecarOnOwnThread(in fleet: Fleet, _ body: (Coordinator) async throws -> Void) async throws {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let sidecar = Coordinator(
            configuration: InterlockConfiguration(redis: fleet.server.configuration), eventLoop: group.next())
        await sidecar.start()
        await sidecar.waitUntilReady()
        let outcome: Result<Void, any Error>
        do {
            let listeners = Int64(fleet.sidecars.count + 1)
            try await eventually("the sidecar has subscribed") {
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
            // A ticket is `<sidecar ID>/ticket/<32 hex>`, and its score is the microsecond of its arrival.
            let ticket = "deadbeef\(1000 + number)/ticket/0123456789abcdef0123456789abcdef"
            try await fleet.cli("ZADD", "interlock:queue:{orders}", "\(number)", ticket)
        }
    }

    private static func waitUntilTicketsAreQueued(_ count: Int, in fleet: Fleet) async throws {
        try await eventually("\(count) tickets are in the queue") {
            try await fleet.cli("ZCARD", "interlock:queue:{orders}").integer == Int64(count)
        }
    }

    private static func waitingCallerCount(in fleet: Fleet) async -> Int {
        var count = 0
        for sidecar in fleet.sidecars { count += await sidecar.status.lockWaiterCount }
        return count
    }

    private static func commandsSent(by fleet: Fleet) async -> Int64 {
        var count: Int64 = 0
        for sidecar in fleet.sidecars { count += await sidecar.status.redisCommandCount }
        return count
    }

    /// The maximum number of commands for the upkeep of two sidecars: heartbeats and lock checks every five seconds.
    private static func upkeep(since start: ContinuousClock.Instant) -> Int64 {
        let rounds = Int64((ContinuousClock.now - start) / Duration.seconds(5)) + 2
        return 8 * rounds
    }

    private static func report(_ waiter: String, since start: ContinuousClock.Instant) {
        print("\(waiter) acquires the lock \(ContinuousClock.now - start) after the release")
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

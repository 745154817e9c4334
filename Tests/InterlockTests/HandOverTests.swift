import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import RedisClient
import Testing

@Suite("Handing a lock over across the fleet", .timeLimit(.minutes(3)))
struct HandOverTests {
    // MARK: Turns

    /// Redis commands that free a lock without a release.
    static let ends = [["DEL", lockKey], ["PEXPIRE", lockKey, "20"]]

    @Test("A newcomer that does not wait never overtakes waiters, however the lock became free", arguments: ends)
    func noBarging(end: [String]) async throws {
        try await Fleet.run(of: 2) { fleet in
            let (newcomer, sidecar) = (fleet.sidecars[0], fleet.sidecars[1])
            for _ in 0..<20 {
                _ = try #require(try await newcomer.acquireLock(try LockRequest("orders", ttl: 600_000, wait: 20_000)))
                let isServed = NIOLockedValueBox(false)
                let waiter = Task {
                    let lease = try await sidecar.acquireLock(try LockRequest("orders", ttl: 600_000, wait: 60_000))
                    isServed.withLockedValue { $0 = true }
                    return lease
                }
                try await Self.waitUntilTicketsAreQueued(1, in: fleet)
                _ = try await fleet.redis.send(AnyCommand(end))
                var overtakes = 0
                try await eventually("the waiter is served") {
                    let lease = try await newcomer.acquireLock(try LockRequest("orders"))
                    if lease != nil { overtakes += 1 }
                    return isServed.withLockedValue { $0 }
                }
                #expect(overtakes == 0)
                let lease = try #require(try await waiter.value)
                let isReleased = try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token)
                #expect(isReleased)
            }
        }
    }

    @Test("Two sidecars with many waiters take turns of a limited number of grants each")
    func turns() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let waiters = 20
            let first = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: 600_000)))
            var grants: [(sidecar: Int, fence: Int64)] = []
            try await withThrowingTaskGroup(of: (Int, Int64).self) { group in
                for waiter in 0..<(2 * waiters) {
                    let index = waiter % 2
                    let sidecar = fleet.sidecars[index]
                    group.addTask {
                        let request = try LockRequest("orders", ttl: 600_000, wait: 60_000)
                        let lease = try #require(try await sidecar.acquireLock(request))
                        _ = try await sidecar.releaseLock(name, token: lease.token)
                        return (index, lease.fence)
                    }
                }
                try await Self.waitUntilWaiting(2 * waiters, in: fleet)
                try await Self.waitUntilTicketsAreQueued(2, in: fleet)
                _ = try await fleet.sidecars[0].releaseLock(name, token: first.token)
                for try await (sidecar, fence) in group { grants.append((sidecar, fence)) }
            }

            grants.sort { $0.fence < $1.fence }
            #expect(grants.count == 2 * waiters)
            var stillWaiting = [waiters, waiters]
            var run = 0
            var last: Int?
            for (sidecar, _) in grants {
                run = sidecar == last ? run + 1 : 1
                last = sidecar
                stillWaiting[sidecar] -= 1
                // The limit applies only while callers of the other sidecar still wait.
                if stillWaiting[1 - sidecar] > 0 { #expect(run <= LockQueue.maximumGrantsPerTurn) }
            }
        }
    }

    // MARK: Hand-overs

    @Test("A release through any sidecar hands the lock over to a waiter at another", arguments: [0, 1, 2])
    func releasedElsewhere(releaser: Int) async throws {
        try await Fleet.run(of: 3) { fleet in
            let name = try ResourceName("orders")
            let clock = ContinuousClock()
            let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: 600_000)))
            async let next = fleet.sidecars[1].acquireLock(try LockRequest("orders", wait: 60_000))
            try await Self.waitUntilTicketsAreQueued(1, in: fleet)
            let releaseTime = clock.now
            let isReleased = try await fleet.sidecars[releaser].releaseLock(name, token: lease.token)
            #expect(isReleased)
            let nextLease = try #require(try await next)
            #expect(nextLease.fence > lease.fence)
            // The periodic recheck, which makes up for lost messages, would come much later.
            #expect(clock.now - releaseTime < .seconds(3))
        }
    }

    @Test("A waiter that leaves at the moment of its turn does not delay those behind it")
    func leavesAtItsTurn() async throws {
        try await Fleet.run(of: 3) { fleet in
            let name = try ResourceName("orders")
            let clock = ContinuousClock()
            let (holder, first) = (fleet.sidecars[0], fleet.sidecars[1])
            for round in 0..<50 {
                let heldLease = try #require(try await holder.acquireLock(try LockRequest("orders", ttl: 600_000, wait: 20_000)))
                let leaver = Task { try await first.acquireLock(try LockRequest("orders", ttl: 600_000, wait: 60_000)) }
                try await Self.waitUntilTicketsAreQueued(1, in: fleet)
                // The next waiter is behind the leaver, in the same sidecar or in another.
                let other = fleet.sidecars[1 + round % 2]
                let next = Task { try await other.acquireLock(try LockRequest("orders", ttl: 600_000, wait: 60_000)) }
                try await Self.waitUntilWaiting(2, in: fleet)

                let releaseTime = clock.now
                async let isReleased = holder.releaseLock(name, token: heldLease.token)
                for _ in 0..<(round % 10) { await Task.yield() }
                leaver.cancel()
                let wasHeld = try await isReleased
                #expect(wasHeld)
                if let won = try? await leaver.value { _ = try await first.releaseLock(name, token: won.token) }
                let nextLease = try #require(try await next.value)
                #expect(clock.now - releaseTime < .seconds(3))
                _ = try await other.releaseLock(name, token: nextLease.token)
            }
            try await Self.waitUntilFree(in: fleet)
        }
    }

    @Test("A hand-over between sidecars costs at most three commands")
    func handOverBetweenSidecarsCostsAtMostThreeCommands() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let clock = ContinuousClock()
            // Each sidecar runs its scripts once, so that later calls need not load them.
            for sidecar in fleet.sidecars {
                let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", wait: 20_000)))
                _ = try await sidecar.releaseLock(name, token: lease.token)
            }
            let start = clock.now
            let before = await Self.commandsSent(by: fleet)
            let cycles = 200
            try await withThrowingTaskGroup(of: Void.self) { group in
                for sidecar in fleet.sidecars {
                    group.addTask {
                        for _ in 0..<cycles {
                            let request = try LockRequest("orders", ttl: 600_000, wait: 60_000)
                            let lease = try #require(try await sidecar.acquireLock(request))
                            _ = try await sidecar.releaseLock(name, token: lease.token)
                        }
                    }
                }
                try await group.waitForAll()
            }
            let spent = await Self.commandsSent(by: fleet) - before
            print("\(spent) commands for \(2 * cycles) hand-overs in \(clock.now - start)")
            #expect(spent <= Int64(3 * 2 * cycles) + Self.upkeep(since: start))
        }
    }

    @Test("Under load one holder at a time has the lock, fences rise, and no key remains, although callers leave and time out")
    func lockHasOneHolderAtATimeUnderLoad() async throws {
        try await Fleet.run(of: 3) { fleet in
            let name = try ResourceName("orders")
            let holders = HolderCount()
            // The lock guards this value, which is read and written a moment later.
            let guarded = NIOLockedValueBox(0)
            let entries = NIOLockedValueBox(0)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<48 {
                    let sidecar = fleet.sidecars[caller % 3]
                    let other = fleet.sidecars[(caller + 1) % 3]
                    group.addTask {
                        for cycle in 0..<40 {
                            let behavior = (caller * 31 + cycle * 17) % 10
                            guard let lease = try await Self.acquire(as: behavior, through: sidecar) else { continue }
                            holders.enter(fence: lease.fence)
                            entries.withLockedValue { $0 += 1 }
                            let guardedValue = guarded.withLockedValue { $0 }
                            await Task.yield()
                            guarded.withLockedValue { $0 = guardedValue + 1 }
                            holders.leave()
                            let releaser = cycle % 5 == 0 ? other : sidecar
                            let isReleased = try await releaser.releaseLock(name, token: lease.token)
                            #expect(isReleased)
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(holders.maximum == 1)
            #expect(holders.fencesRose)
            let (entered, counted) = (entries.withLockedValue { $0 }, guarded.withLockedValue { $0 })
            #expect(entered == counted)
            print("\(entered) of 1920 attempts acquired the lock")
            try await Self.waitUntilFree(in: fleet)
        }
    }

    // MARK: Unannounced ends

    @Test("The first waiter notices within two seconds that a lock with a minute remaining has ended", arguments: ends)
    func unannouncedEnd(end: [String]) async throws {
        try await Fleet.run(of: 2) { fleet in
            let clock = ContinuousClock()
            let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: 60_000)))
            async let next = fleet.sidecars[1].acquireLock(try LockRequest("orders", wait: 50_000))
            try await Self.waitUntilTicketsAreQueued(1, in: fleet)
            let endTime = clock.now
            _ = try await fleet.redis.send(AnyCommand(end))
            let nextLease = try #require(try await next)
            #expect(nextLease.fence > lease.fence)
            #expect(clock.now - endTime < .seconds(2))
        }
    }

    @Test("A sidecar stopped at its turn delays the others only for its claim window")
    func stoppedSidecar() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let clock = ContinuousClock()
            let stopped = StoppedSidecar(fleet.server.configuration, id: "deadbeef0000")
            await stopped.start()
            try await eventually("the stopped sidecar has subscribed") {
                try await fleet.cli("PUBSUB", "NUMSUB", "interlock:wake:deadbeef0000").array?.last?.integer == 1
            }
            let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: 600_000)))
            let ticket = "deadbeef0000/0123456789abcdef0123456789abcdef"
            // The stopped sidecar's ticket is ahead of all others.
            try await fleet.cli("ZADD", Self.queueKey, "1", ticket)
            async let next = fleet.sidecars[1].acquireLock(try LockRequest("orders", wait: 60_000))
            try await Self.waitUntilTicketsAreQueued(2, in: fleet)
            let releaseTime = clock.now
            let isReleased = try await fleet.sidecars[0].releaseLock(name, token: lease.token)
            #expect(isReleased)
            let nextLease = try #require(try await next)
            #expect(nextLease.fence > lease.fence)
            // The stopped sidecar had its turn first.
            #expect(clock.now - releaseTime >= Duration.milliseconds(LockQueue.claimWindowMilliseconds) / 2)
            #expect(clock.now - releaseTime < .seconds(3))
            try await Self.waitUntilTicketsAreQueued(0, in: fleet)
            try await stopped.close()
        }
    }
}

extension HandOverTests {
    private static let lockKey = "interlock:lock:{orders}"
    private static let queueKey = "interlock:queue:{orders}"

    /// Acquires like one of several kinds of callers: most wait until granted; others do not wait, or only briefly, or
    /// cancel.
    private static func acquire(as behavior: Int, through sidecar: Coordinator) async throws -> Lease? {
        switch behavior {
        case 0:
            return try await sidecar.acquireLock(try LockRequest("orders", ttl: 600_000))
        case 1, 2:
            return try await sidecar.acquireLock(try LockRequest("orders", ttl: 600_000, wait: Int64(5 * behavior)))
        case 3, 4:
            let caller = Task { try await sidecar.acquireLock(try LockRequest("orders", ttl: 600_000, wait: 60_000)) }
            for _ in 0..<(10 * behavior) { await Task.yield() }
            caller.cancel()
            do {
                return try await caller.value
            } catch is CancellationError {
                return nil
            }
        default:
            let lease = try await sidecar.acquireLock(try LockRequest("orders", ttl: 600_000, wait: 60_000))
            #expect(lease != nil)
            return lease
        }
    }

    private static func waitingCallerCount(in fleet: Fleet) async -> Int {
        var count = 0
        for sidecar in fleet.sidecars { count += await sidecar.status.lockWaiterCount }
        return count
    }

    private static func waitUntilWaiting(_ count: Int, in fleet: Fleet) async throws {
        try await eventually("\(count) callers wait") { await waitingCallerCount(in: fleet) == count }
    }

    private static func waitUntilTicketsAreQueued(_ count: Int64, in fleet: Fleet) async throws {
        try await eventually("\(count) tickets are in the queue") {
            try await fleet.cli("ZCARD", queueKey).integer == count
        }
    }

    private static func waitUntilFree(in fleet: Fleet) async throws {
        try await eventually(within: .seconds(5), "the lock is free, and no one waits for it") {
            try await fleet.cli("EXISTS", lockKey, queueKey).integer == 0
        }
    }

    private static func commandsSent(by fleet: Fleet) async -> Int64 {
        var count: Int64 = 0
        for sidecar in fleet.sidecars { count += await sidecar.status.redisCommandCount }
        return count
    }

    /// The maximum number of commands that two sidecars send in addition to their hand-overs: heartbeats and rereads
    /// every five seconds, and checks of a lock that one caller holds for long.
    private static func upkeep(since start: ContinuousClock.Instant) -> Int64 {
        let elapsed = ContinuousClock.now - start
        let rounds = Int64(elapsed / Duration.seconds(5)) + 2
        let checks = Int64(elapsed / Duration.milliseconds(LockQueue.checkMilliseconds)) + 1
        return 8 * rounds + checks
    }
}

/// Receives the notifications of a sidecar but never reacts to them, as if its process were stopped.
private actor StoppedSidecar {
    private nonisolated let eventLoop: any EventLoop
    private let subscriber: RedisSubscriber

    nonisolated var unownedExecutor: UnownedSerialExecutor { eventLoop.executor.asUnownedSerialExecutor() }

    init(_ configuration: RedisConfiguration, id: String) {
        eventLoop = MultiThreadedEventLoopGroup.singleton.next()
        subscriber = RedisSubscriber(
            configuration: configuration, channels: ["interlock:wake:\(id)"],
            environment: RedisEnvironment(eventLoop: eventLoop, logger: Logger(label: "test")))
    }

    func start() {
        subscriber.start()
    }

    func close() async throws {
        try await subscriber.close().get()
    }
}

import Interlock
import InterlockCore
import InterlockProcesses
import NIOConcurrencyHelpers
import RedisClient
import Testing

@Suite("A body that runs while a lock is held", .timeLimit(.minutes(2)))
struct WithLockTests {
    private struct Failure: Error, Equatable {}

    // MARK: Results

    @Test("The lock is held while the body runs, its result is returned, and the lock is free afterwards")
    func lockIsHeldWhileBodyRuns() async throws {
        try await Fleet.run(of: 2) { fleet in
            let other = fleet.sidecars[1]
            let redis = fleet.redis
            let fence = try await fleet.sidecars[0].locks.withLock("orders") { lease in
                let token = try await redis.send(AnyCommand(["GET", Self.key])).text
                #expect(token == lease.token)
                let attempt = try await other.acquireLock(try LockRequest("orders"))
                #expect(attempt == nil)
                return lease.fence
            }
            let nextLease = try #require(try await other.acquireLock(try LockRequest("orders")))
            #expect(nextLease.fence > fence)
        }
    }

    @Test("The body's error is thrown, and the lock is free")
    func bodyErrorIsThrownAndFreesLock() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            await #expect(throws: Failure()) {
                try await sidecar.locks.withLock("orders") { _ -> Void in throw Failure() }
            }
            try await Self.expectFree(in: fleet)
        }
    }

    @Test("If another caller holds the lock, the error is `held` without a wait and `waitTimedOut` after one")
    func heldAndTimedOut() async throws {
        try await Fleet.run(of: 2) { fleet in
            let locks = fleet.sidecars[0].locks
            let runs = NIOLockedValueBox(0)
            let lease = try #require(try await fleet.sidecars[1].acquireLock(try LockRequest("orders")))
            let code = await Self.code {
                try await locks.withLock("orders") { _ in runs.withLockedValue { $0 += 1 } }
            }
            #expect(code == .held)
            let timedOut = await Self.code {
                try await locks.withLock("orders", wait: .milliseconds(100)) { _ in runs.withLockedValue { $0 += 1 } }
            }
            #expect(timedOut == .waitTimedOut)
            let count = runs.withLockedValue { $0 }
            #expect(count == 0)
            let token = try await fleet.cli("GET", Self.key).text
            #expect(token == lease.token)
        }
    }

    @Test("A waiting caller has the lock after its release")
    func waitingCallerHasLockAfterRelease() async throws {
        try await Fleet.run(of: 2) { fleet in
            let lease = try #require(try await fleet.sidecars[1].acquireLock(try LockRequest("orders")))
            let locks = fleet.sidecars[0].locks
            let caller = Task { try await locks.withLock("orders", wait: .seconds(60)) { $0.fence } }
            try await Self.waitUntilCallerWaits(in: fleet)
            let isReleased = try await fleet.sidecars[1].releaseLock(try ResourceName("orders"), token: lease.token)
            #expect(isReleased)
            let fence = try await caller.value
            #expect(fence > lease.fence)
        }
    }

    @Test("A request that no sidecar would grant is invalid")
    func requestThatNoSidecarWouldGrantIsInvalid() async throws {
        try await Fleet.run { fleet in
            let locks = fleet.sidecars[0].locks
            let name = await Self.code { try await locks.withLock("two words") { _ in } }
            #expect(name == .invalid)
            let ttl = await Self.code { try await locks.withLock("orders", ttl: .zero) { _ in } }
            #expect(ttl == .invalid)
            let wait = await Self.code { try await locks.withLock("orders", wait: .seconds(-1)) { _ in } }
            #expect(wait == .invalid)
            let slots = await Self.code { try await locks.withLock("orders", mode: .permits(0)) { _ in } }
            #expect(slots == .invalid)
            try await Self.expectFree(in: fleet)
        }
    }

    @Test("Without Redis the error is `unavailable`, never `held`")
    func unavailable() async throws {
        try await Fleet.run { fleet in
            let locks = fleet.sidecars[0].locks
            await fleet.server.kill()
            let code = await Self.code { try await locks.withLock("orders") { _ in } }
            #expect(code == .unavailable)
        }
    }

    // MARK: Cancellation

    @Test("A caller cancelled while waiting gets a `CancellationError`, and its body never runs")
    func cancelledWhileWaiting() async throws {
        try await Fleet.run(of: 2) { fleet in
            let locks = fleet.sidecars[0].locks
            let runs = NIOLockedValueBox(0)
            let lease = try #require(try await fleet.sidecars[1].acquireLock(try LockRequest("orders")))
            let caller = Task {
                try await locks.withLock("orders", wait: .seconds(60)) { _ in runs.withLockedValue { $0 += 1 } }
            }
            try await Self.waitUntilCallerWaits(in: fleet)
            caller.cancel()
            await #expect(throws: CancellationError.self) { try await caller.value }
            let isReleased = try await fleet.sidecars[1].releaseLock(try ResourceName("orders"), token: lease.token)
            #expect(isReleased)
            try await eventually("the lock stays free") { try await fleet.cli("EXISTS", Self.key).integer == 0 }
            let count = runs.withLockedValue { $0 }
            #expect(count == 0)
        }
    }

    @Test("A cancelled caller cancels the body, and the lock is free when the body has ended")
    func cancelledBody() async throws {
        try await Fleet.run { fleet in
            let locks = fleet.sidecars[0].locks
            let runs = NIOLockedValueBox(0)
            let caller = Task {
                try await locks.withLock("orders") { _ in
                    runs.withLockedValue { $0 += 1 }
                    try await Self.waitUntilCancelled()
                }
            }
            // The key may exist before the caller learns of its lease.
            try await eventually("the body runs") { runs.withLockedValue { $0 } == 1 }
            caller.cancel()
            await #expect(throws: CancellationError.self) { try await caller.value }
            try await Self.expectFree(in: fleet)
        }
    }

    @Test("A body that ignores its cancellation keeps the lock until it has ended, and its result counts")
    func ignoredCancellation() async throws {
        try await Fleet.run { fleet in
            let locks = fleet.sidecars[0].locks
            let redis = fleet.redis
            let runs = NIOLockedValueBox(0)
            let caller = Task {
                try await locks.withLock("orders") { _ in
                    runs.withLockedValue { $0 += 1 }
                    // The body keeps running as if it had to clean up.
                    try? await Self.waitUntilCancelled()
                    return try await redis.send(AnyCommand(["EXISTS", Self.key])).integer
                }
            }
            // The key may exist before the caller learns of its lease.
            try await eventually("the body runs") { runs.withLockedValue { $0 } == 1 }
            caller.cancel()
            let wasHeld = try await caller.value
            #expect(wasHeld == 1)
            try await Self.expectFree(in: fleet)
        }
    }

    // MARK: The lease

    @Test("The lease is renewed while the body runs")
    func leaseIsRenewedWhileBodyRuns() async throws {
        try await Fleet.run(of: 2) { fleet in
            let other = fleet.sidecars[1]
            try await fleet.sidecars[0].locks.withLock("orders", ttl: .milliseconds(600)) { _ in
                let start = ContinuousClock.now
                try await eventually("three ttls have passed") {
                    let attempt = try await other.acquireLock(try LockRequest("orders"))
                    #expect(attempt == nil)
                    return ContinuousClock.now - start >= .milliseconds(3 * 600)
                }
            }
            try await Self.expectFree(in: fleet)
        }
    }

    @Test("When an operator breaks the lock the body is cancelled, and the error says so")
    func broken() async throws {
        try await Fleet.run(of: 2) { fleet in
            let wasCancelled = NIOLockedValueBox(false)
            let locks = fleet.sidecars[0].locks
            let caller = Task {
                try await locks.withLock("orders", ttl: .seconds(600)) { _ in
                    do {
                        try await Self.waitUntilCancelled()
                    } catch {
                        wasCancelled.withLockedValue { $0 = true }
                        throw error
                    }
                }
            }
            // A lock that is lost before Redis tracks its key is reported only as deleted.
            try await fleet.server.waitUntilTracking(1)
            let isBroken = try await fleet.sidecars[1].breakLock(try ResourceName("orders"), by: "ops")
            #expect(isBroken)
            let (code, loss) = await Self.failure { try await caller.value }
            #expect(code == .leaseLost)
            #expect(loss == .broken)
            let isCancelled = wasCancelled.withLockedValue { $0 }
            #expect(isCancelled)
        }
    }

    @Test("A loss is reported even if the body ran to its end, and the next holder keeps its lock")
    func lostAndIgnored() async throws {
        try await Fleet.run(of: 2) { fleet in
            let other = fleet.sidecars[1]
            let locks = fleet.sidecars[0].locks
            let redis = fleet.redis
            let caller = Task {
                try await locks.withLock("orders", ttl: .seconds(600)) { _ in
                    try? await Self.waitUntilCancelled()
                    return 42
                }
            }
            try await Self.waitUntilHeld(in: fleet)
            _ = try await redis.send(AnyCommand(["SET", Self.key, "other", "PX", "600000"]))
            let (code, loss) = await Self.failure { _ = try await caller.value }
            #expect(code == .leaseLost)
            #expect(loss == .taken)
            let token = try await fleet.cli("GET", Self.key).text
            #expect(token == "other")
            let attempt = try await other.acquireLock(try LockRequest("orders"))
            #expect(attempt == nil)
        }
    }

    @Test("Readers' bodies run together")
    func readersBodiesRunTogether() async throws {
        try await Fleet.run(of: 2) { fleet in
            let inside = NIOLockedValueBox(0)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for sidecar in fleet.sidecars {
                    group.addTask {
                        try await sidecar.locks.withLock("orders", wait: .seconds(60), mode: .shared) { _ in
                            inside.withLockedValue { $0 += 1 }
                            // Neither caller leaves before the other has entered.
                            try await eventually("both bodies run") { inside.withLockedValue { $0 } == 2 }
                        }
                    }
                }
                try await group.waitForAll()
            }
        }
    }

    @Test("Bodies exclude each other, even across sidecars")
    func mutualExclusion() async throws {
        try await Fleet.run(of: 2) { fleet in
            let holders = HolderCount()
            let runs = NIOLockedValueBox(0)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<16 {
                    let locks = fleet.sidecars[caller % 2].locks
                    group.addTask {
                        for _ in 0..<20 {
                            try await locks.withLock("orders", wait: .seconds(60)) { lease in
                                holders.enter(fence: lease.fence)
                                await Task.yield()
                                runs.withLockedValue { $0 += 1 }
                                holders.leave()
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(holders.maximum == 1)
            #expect(holders.fencesRose)
            let count = runs.withLockedValue { $0 }
            #expect(count == 16 * 20)
            try await Self.expectFree(in: fleet)
        }
    }
}

extension WithLockTests {
    private static let key = "interlock:lock:{orders}"

    /// Returns the code of the `InterlockError` that `call` throws; `nil` if it succeeds or throws another error.
    private static func code(of call: () async throws -> Void) async -> InterlockError.Code? { await failure(of: call).code }

    private static func failure(of call: () async throws -> Void) async -> (code: InterlockError.Code?, loss: LeaseLoss?) {
        do {
            try await call()
            return (nil, nil)
        } catch {
            let error = error as? InterlockError
            return (error?.code, error?.loss)
        }
    }

    /// Runs until its task is cancelled.
    private static func waitUntilCancelled() async throws {
        let (endless, never) = AsyncStream.makeStream(of: Void.self)
        for await _ in endless {}
        never.finish()
        try Task.checkCancellation()
    }

    private static func waitUntilHeld(in fleet: Fleet) async throws {
        try await eventually("the body's lock is held") { try await fleet.cli("EXISTS", key).integer == 1 }
    }

    private static func waitUntilCallerWaits(in fleet: Fleet) async throws {
        try await eventually("a caller waits") { try await fleet.cli("ZCARD", "interlock:queue:{orders}").integer == 1 }
    }

    /// Expects the lock to be free without a wait, because `withLock` returns only after the release.
    private static func expectFree(in fleet: Fleet) async throws {
        let keys = try await fleet.cli("EXISTS", key).integer
        #expect(keys == 0)
    }
}

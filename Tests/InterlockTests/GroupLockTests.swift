import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOConcurrencyHelpers
import RedisClient
import Testing

@Suite("Locks with several holders", .timeLimit(.minutes(3)))
struct GroupLockTests {
    // MARK: Readers and writers

    @Test("Readers hold the lock together through any sidecar, and a writer gets it after the last reader's release")
    func readersTogether() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            var readers: [Lease] = []
            for sidecar in fleet.sidecars {
                readers.append(try #require(try await sidecar.acquireLock(try Self.request(.shared))))
            }
            for reader in readers {
                for sidecar in fleet.sidecars {
                    let attempt = try await sidecar.acquireLock(try Self.request(.exclusive))
                    #expect(attempt == nil)
                }
                // A lease can be released through any sidecar.
                let isReleased = try await fleet.sidecars[1].releaseLock(name, token: reader.token)
                #expect(isReleased)
            }
            let writer = try await fleet.sidecars[0].acquireLock(try Self.request(.exclusive))
            #expect(writer != nil)
            for sidecar in fleet.sidecars {
                let attempt = try await sidecar.acquireLock(try Self.request(.shared))
                #expect(attempt == nil)
            }
        }
    }

    @Test("Each reader has a higher fence than all earlier readers")
    func fencesRise() async throws {
        try await Fleet.run(of: 2) { fleet in
            var fences: [Int64] = []
            for index in 0..<10 {
                let lease = try #require(try await fleet.sidecars[index % 2].acquireLock(try Self.request(.shared)))
                fences.append(lease.fence)
            }
            #expect(fences == fences.sorted())
            #expect(Set(fences).count == fences.count)
        }
    }

    @Test("A writer waits for all readers, and new readers do not pass it", arguments: [0, 1])
    func writerIsNotStarved(index: Int) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            var readers: [Lease] = []
            for sidecar in fleet.sidecars {
                readers.append(try #require(try await sidecar.acquireLock(try Self.request(.shared))))
            }
            let sidecar = fleet.sidecars[index]
            let writer = Task { try await sidecar.acquireLock(try Self.request(.exclusive, wait: 60_000)) }
            try await Self.waitUntilTicketsAreQueued(1, in: fleet)

            for sidecar in fleet.sidecars {
                let attempt = try await sidecar.acquireLock(try Self.request(.shared))
                #expect(attempt == nil)
            }
            let latecomers = fleet.sidecars.map { sidecar in
                Task { try await sidecar.acquireLock(try Self.request(.shared, wait: 60_000)) }
            }
            try await Self.waitUntilWaiting(3, in: fleet)

            for reader in readers {
                let waiting = await Self.waitingCallerCount(in: fleet)
                #expect(waiting == 3)
                let isReleased = try await fleet.sidecars[0].releaseLock(name, token: reader.token)
                #expect(isReleased)
            }
            let written = try #require(try await writer.value)
            let stillWaiting = await Self.waitingCallerCount(in: fleet)
            #expect(stillWaiting == 2)

            let isReleased = try await sidecar.releaseLock(name, token: written.token)
            #expect(isReleased)
            for latecomer in latecomers {
                let lease = try #require(try await latecomer.value)
                #expect(lease.fence > written.fence)
            }
        }
    }

    @Test("All readers that waited behind a writer hold it together after the writer", arguments: [0, 1])
    func readersAfterWriter(releaser: Int) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let writer = try #require(try await fleet.sidecars[0].acquireLock(try Self.request(.exclusive)))
            let readers = (0..<6).map { number in
                let sidecar = fleet.sidecars[number % 2]
                return Task { try await sidecar.acquireLock(try Self.request(.shared, wait: 60_000)) }
            }
            try await Self.waitUntilWaiting(6, in: fleet)
            let isReleased = try await fleet.sidecars[releaser].releaseLock(name, token: writer.token)
            #expect(isReleased)
            for reader in readers {
                let lease = try #require(try await reader.value)
                #expect(lease.fence > writer.fence)
            }
            let information = try await fleet.sidecars[0].inspectLock(name)
            #expect(information?.holders == 6)
            #expect(information?.waiters == 0)
        }
    }

    @Test("A reader's lease that lapses ends for that reader only")
    func readerLapses() async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            let brief = try #require(try await sidecar.acquireLock(try Self.request(.shared, ttl: 300)))
            let long = try #require(try await sidecar.acquireLock(try Self.request(.shared, ttl: 60_000)))
            try await eventually("one holder remains") { try await sidecar.inspectLock(name)?.holders == 1 }
            let renewal = try await sidecar.renewLock(name, token: brief.token, ttlMilliseconds: 60_000)
            #expect(renewal == nil)
            let isReleased = try await sidecar.releaseLock(name, token: brief.token)
            #expect(!isReleased)
            let valid = try #require(try await sidecar.renewLock(name, token: long.token, ttlMilliseconds: 600_000))
            #expect(valid > 300_000)
        }
    }

    @Test("When a writer gives up, the readers behind it get the lock, here and at another sidecar", arguments: [0, 1])
    func writerGivesUp(index: Int) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let reader = try #require(try await fleet.sidecars[0].acquireLock(try Self.request(.shared)))
            let writer = Task { try await fleet.sidecars[0].acquireLock(try Self.request(.exclusive, wait: 60_000)) }
            try await eventually("the writer waits") {
                try await fleet.sidecars[1].inspectLock(name)?.waiters == 1
            }
            let sidecar = fleet.sidecars[index]
            let next = Task { try await sidecar.acquireLock(try Self.request(.shared, wait: 60_000)) }
            try await eventually("the reader waits behind it") {
                let waiting = await sidecar.status.lockWaiterCount
                let waiters = try await fleet.sidecars[1].inspectLock(name)?.waiters
                return waiting == (index == 0 ? 2 : 1) && waiters == (index == 0 ? 1 : 2)
            }
            let clock = ContinuousClock()
            let start = clock.now
            writer.cancel()
            let lease = try await next.value
            #expect(lease != nil)
            // The periodic recheck, which makes up for lost messages, would come much later.
            #expect(clock.now - start < .seconds(3))
            let isReleased = try await fleet.sidecars[0].releaseLock(name, token: reader.token)
            #expect(isReleased)
        }
    }

    // MARK: Semaphores

    @Test("A semaphore of three has three holders, and the next waiter gets the first released slot", arguments: [0, 1, 2])
    func semaphoreOfThreeHasThreeHolders(leaver: Int) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            var holders: [Lease] = []
            for index in 0..<3 {
                holders.append(try #require(try await fleet.sidecars[index % 2].acquireLock(try Self.request(.permits(3)))))
            }
            let attempt = try await fleet.sidecars[0].acquireLock(try Self.request(.permits(3)))
            #expect(attempt == nil)
            let sidecar = fleet.sidecars[1]
            let fourth = Task { try await sidecar.acquireLock(try Self.request(.permits(3), wait: 60_000)) }
            try await Self.waitUntilTicketsAreQueued(1, in: fleet)
            let isReleased = try await fleet.sidecars[0].releaseLock(name, token: holders[leaver].token)
            #expect(isReleased)
            let nextLease = try #require(try await fourth.value)
            #expect(holders.allSatisfy { $0.fence < nextLease.fence })
            let fifth = try await sidecar.acquireLock(try Self.request(.permits(3)))
            #expect(fifth == nil)
            let information = try await sidecar.inspectLock(name)
            #expect(information?.holders == 3)
        }
    }

    @Test("Slots of leases that lapse one by one go to waiters")
    func lapsingSlots() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            for ttl in [Int64(300), 600, 900] {
                _ = try #require(try await fleet.sidecars[0].acquireLock(try Self.request(.permits(3), ttl: ttl)))
            }
            let waiters = (0..<3).map { number in
                let sidecar = fleet.sidecars[number % 2]
                return Task { try await sidecar.acquireLock(try Self.request(.permits(3), ttl: 600_000, wait: 60_000)) }
            }
            for waiter in waiters {
                let lease = try await waiter.value
                #expect(lease != nil)
            }
            let information = try await fleet.sidecars[0].inspectLock(name)
            #expect(information?.holders == 3)
        }
    }

    @Test("The first holder determines the number of slots")
    func firstHolderDecides() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            var holders: [Lease] = []
            for slots in [2, 5] {
                holders.append(try #require(try await fleet.sidecars[0].acquireLock(try Self.request(.permits(slots)))))
            }
            let attempt = try await fleet.sidecars[1].acquireLock(try Self.request(.permits(5)))
            #expect(attempt == nil)
            for holder in holders { _ = try await fleet.sidecars[0].releaseLock(name, token: holder.token) }
            // The next holder determines a new number of slots.
            for _ in 0..<3 {
                let lease = try await fleet.sidecars[1].acquireLock(try Self.request(.permits(3)))
                #expect(lease != nil)
            }
        }
    }

    @Test("A size that differs from the semaphore's is logged once per lock and size")
    func otherSize() async throws {
        let log = LineLog()
        try await Fleet.run(logger: Logger(label: "test") { _ in log }) { fleet in
            for slots in [5, 2, 2, 5, 7] {
                let lease = try await fleet.sidecars[0].acquireLock(try Self.request(.permits(slots)))
                #expect(lease?.permits == 5)
            }
            let lines = log.lines.filter { $0.contains("event=lock.permits_differ") }
            #expect(lines.count == 2, "\(lines)")
            for (line, requested) in zip(lines, [2, 7]) {
                #expect(line.hasSuffix("asked=\(requested) event=lock.permits_differ lock=orders permits=5"))
            }
        }
    }

    // MARK: Conflicting modes

    @Test(
        "Acquiring a semaphore in another mode is the caller's error, with or without a wait",
        arguments: [
            (LockMode.exclusive, LockMode.permits(2)), (.shared, .permits(2)), (.permits(2), .exclusive),
            (.permits(2), .shared),
        ], [Int64(0), 60_000])
    func otherSemaphoreModeIsCallerError(modes: (LockMode, LockMode), wait: Int64) async throws {
        let (held, requested) = modes
        try await Fleet.run(of: 2) { fleet in
            _ = try #require(try await fleet.sidecars[0].acquireLock(try Self.request(held)))
            for sidecar in fleet.sidecars {
                let code = await Self.code { _ = try await sidecar.acquireLock(try Self.request(requested, wait: wait)) }
                #expect(code == .invalid)
                let waiting = await sidecar.status.lockWaiterCount
                #expect(waiting == 0)
            }
        }
    }

    @Test("Readers and a writer exclude each other without an error", arguments: [LockMode.shared, .exclusive])
    func readersAndWriterExcludeEachOtherWithoutError(held: LockMode) async throws {
        try await Fleet.run { fleet in
            let requested: LockMode = held == .shared ? .exclusive : .shared
            _ = try #require(try await fleet.sidecars[0].acquireLock(try Self.request(held)))
            let attempt = try await fleet.sidecars[0].acquireLock(try Self.request(requested))
            #expect(attempt == nil)
            let stillRefused = try await fleet.sidecars[0].acquireLock(try Self.request(requested, wait: 50))
            #expect(stillRefused == nil)
        }
    }

    // MARK: Concurrency

    @Test("Of thirty-two callers through four sidecars, at most three hold a semaphore of three")
    func semaphoreUnderLoad() async throws {
        try await Fleet.run(of: 4) { fleet in
            let name = try ResourceName("orders")
            let inside = Occupancy()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<32 {
                    let sidecar = fleet.sidecars[caller % 4]
                    group.addTask {
                        for _ in 0..<50 {
                            let request = try Self.request(.permits(3), ttl: 600_000, wait: 60_000)
                            let lease = try #require(try await sidecar.acquireLock(request))
                            inside.enter(isWriter: false)
                            await Task.yield()
                            inside.leave(isWriter: false)
                            let isReleased = try await sidecar.releaseLock(name, token: lease.token)
                            #expect(isReleased)
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect((2...3).contains(inside.maximumReaders))
            try await Self.waitUntilFree(in: fleet)
        }
    }

    @Test("Of 24 callers through three sidecars, a quarter of them writers, no writer shares the lock with another holder")
    func readersAndWritersUnderLoad() async throws {
        try await Fleet.run(of: 3) { fleet in
            let name = try ResourceName("orders")
            let inside = Occupancy()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<24 {
                    let sidecar = fleet.sidecars[caller % 3]
                    group.addTask {
                        for cycle in 0..<30 {
                            let isWriter = (caller + cycle) % 4 == 0
                            let request = try Self.request(isWriter ? .exclusive : .shared, ttl: 600_000, wait: 60_000)
                            let lease = try #require(try await sidecar.acquireLock(request))
                            inside.enter(isWriter: isWriter)
                            await Task.yield()
                            inside.leave(isWriter: isWriter)
                            let isReleased = try await sidecar.releaseLock(name, token: lease.token)
                            #expect(isReleased)
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(inside.conflicts == 0)
            #expect(inside.maximumReaders > 1)
            try await Self.waitUntilFree(in: fleet)
        }
    }
}

extension GroupLockTests {
    static let lockKey = "interlock:lock:{orders}"
    static let holdersKey = "interlock:holders:{orders}"

    static func request(
        _ mode: LockMode, ttl: Int64 = 30_000, wait: Int64 = 0, owner: String? = nil
    ) throws -> LockRequest {
        LockRequest(
            name: try ResourceName("orders"), ttlMilliseconds: ttl, waitMilliseconds: wait, owner: owner, mode: mode)
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
            try await fleet.cli("ZCARD", "interlock:queue:{orders}").integer == count
        }
    }

    private static func waitUntilFree(in fleet: Fleet) async throws {
        try await eventually("the lock is free, and no one waits for it") {
            try await fleet.cli("EXISTS", lockKey, holdersKey, "interlock:grants:{orders}", "interlock:queue:{orders}").integer
                == 0
        }
    }

    /// Returns the code of the `InterlockError` that `call` throws; `nil` if it succeeds or throws another error.
    static func code(of call: () async throws -> Void) async -> InterlockError.Code? {
        do {
            try await call()
            return nil
        } catch {
            return (error as? InterlockError)?.code
        }
    }

    /// Counts concurrent readers and writers.
    private final class Occupancy: Sendable {
        private struct State {
            var readers = 0
            var writers = 0
            var maximumReaders = 0
            var conflicts = 0
        }

        private let state = NIOLockedValueBox(State())

        var maximumReaders: Int { state.withLockedValue { $0.maximumReaders } }
        /// The number of times that a writer held the lock together with another holder.
        var conflicts: Int { state.withLockedValue { $0.conflicts } }

        func enter(isWriter: Bool) {
            state.withLockedValue { state in
                if isWriter { state.writers += 1 } else { state.readers += 1 }
                state.maximumReaders = max(state.maximumReaders, state.readers)
                if state.writers > 1 || (state.writers == 1 && state.readers > 0) { state.conflicts += 1 }
            }
        }

        func leave(isWriter: Bool) {
            state.withLockedValue { state in
                if isWriter { state.writers -= 1 } else { state.readers -= 1 }
            }
        }
    }
}

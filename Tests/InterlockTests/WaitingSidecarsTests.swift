import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@testable import Interlock

@Suite("The waiting sidecars of a lock")
struct WaitingSidecarsTests {
    private static let name = "orders"
    private static let queueKey = "interlock:queue:{orders}"

    /// Starts `count` waiting callers in a sidecar, then waits until the queue has `tickets` tickets.
    private static func wait(
        _ count: Int, in sidecar: Coordinator, tickets: Int64, of fleet: Fleet
    ) async throws -> [Task<Lease?, any Error>] {
        let tasks = (0..<count).map { _ in
            Task { try await sidecar.acquireLock(try LockRequest(name, wait: 60_000)) }
        }
        try await eventually("the callers wait") { await sidecar.status.lockWaiterCount == count }
        try await eventually("the sidecar's ticket is in the queue") { try await fleet.cli("ZCARD", queueKey).integer == tickets }
        return tasks
    }

    private static func queue(at sidecar: Coordinator) async throws -> [WaitingSidecar] {
        try await sidecar.inspectLock(try ResourceName(name))?.queue ?? []
    }

    @Test("Each sidecar reports its number of waiters in the order of turns, and a later inspection shows changes")
    func counts() async throws {
        try await Fleet.run(of: 3) { fleet in
            let (inspector, second, third) = (fleet.sidecars[0], fleet.sidecars[1], fleet.sidecars[2])
            #expect(try await inspector.acquireLock(try LockRequest(Self.name)) != nil)
            let waiters = try await Self.wait(3, in: second, tickets: 1, of: fleet)
            let others = try await Self.wait(1, in: third, tickets: 2, of: fleet)
            // No earlier inspection had asked the sidecars for their counts.
            try await eventually("both sidecars have reported") {
                try await Self.queue(at: inspector)
                    == [WaitingSidecar(id: second.id, waiters: 3), WaitingSidecar(id: third.id, waiters: 1)]
            }
            #expect(try await Self.queue(at: second).first == WaitingSidecar(id: second.id, waiters: 3))
            waiters[2].cancel()
            await #expect(throws: CancellationError.self) { try await waiters[2].value }
            try await eventually("one fewer waiter is reported") {
                try await Self.queue(at: inspector).first == WaitingSidecar(id: second.id, waiters: 2)
            }
            for task in waiters + others { task.cancel() }
            try await eventually("no one waits") { try await Self.queue(at: inspector).isEmpty }
        }
    }

    @Test("Many locks are inspected fifty per command, each with its own holders and waiters")
    func fiftyLocksAreInspectedPerCommand() async throws {
        try await Fleet.run(of: 2) { fleet in
            let (inspector, other) = (fleet.sidecars[0], fleet.sidecars[1])
            let names = try (0..<120).map { try ResourceName("lock-\($0)") }
            for name in names.dropLast() {
                let mode: LockMode = name.text.hasSuffix("3") ? .permits(2) : .exclusive
                #expect(
                    try await other.acquireLock(
                        LockRequest(name: name, ttlMilliseconds: 60_000, label: name.text, mode: mode))
                        != nil)
            }
            let waiting = Task {
                try await other.acquireLock(
                    LockRequest(name: names[7], ttlMilliseconds: 60_000, waitMilliseconds: 60_000))
            }
            try await eventually("a caller waits") { await other.status.lockWaiterCount == 1 }
            try await eventually("the other sidecar has reported its number of waiters") {
                try await inspector.inspectLocks(names)[7]?.queue == [WaitingSidecar(id: other.id, waiters: 1)]
            }
            let before = await inspector.status.redisCommandCount
            let information = try await inspector.inspectLocks(names)
            #expect(await inspector.status.redisCommandCount - before <= 5)
            #expect(information.map { $0?.leases.first?.label } == names.dropLast().map(\.text) + [nil])
            #expect(
                information.enumerated().filter { $1?.mode == .permits(2) }.map(\.offset)
                    == Array(stride(from: 3, to: 119, by: 10)))
            #expect(information.enumerated().filter { $1?.waiters ?? 0 > 0 }.map(\.offset) == [7])
            #expect(try await inspector.inspectLocks([]).isEmpty)
            waiting.cancel()
        }
    }

    @Test("A sidecar that cannot report is listed without a number, and inspections do not wait long for it")
    func silentSidecarIsListedWithoutNumber() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let lease = try await sidecar.acquireLock(try LockRequest(Self.name))
            #expect(lease != nil)
            let ticket = "0123456789ab/ticket/00112233445566778899aabbccddeeff"
            try await fleet.cli("ZADD", Self.queueKey, "1", ticket)
            #expect(try await Self.queue(at: sidecar) == [WaitingSidecar(id: "0123456789ab", waiters: nil)])
            // Expired counts, counts that a clock set back would keep too long, and malformed counts are ignored.
            for entry in ["1 7 \(ticket)", "99999999999999 7 \(ticket)", "many", "7", "1 7", "99999999999999 7 other"] {
                try await fleet.cli("HSET", "interlock:waiters:{orders}", "0123456789ab", entry)
                #expect(try await Self.queue(at: sidecar) == [WaitingSidecar(id: "0123456789ab", waiters: nil)])
            }
        }
    }

    @Test("The sidecar whose turn is offered is the first that waits, and its ID is the lock's label meanwhile")
    func offeredTurn() async throws {
        try await Fleet.run { fleet in
            let ticket = "0123456789ab/ticket/00112233445566778899aabbccddeeff"
            try await fleet.cli("SET", "interlock:lock:{orders}", ticket, "PX", "60000")
            let information = try #require(try await fleet.sidecars[0].inspectLock(try ResourceName(Self.name)))
            #expect(information.label == "0123456789ab")
            #expect(information.leases.isEmpty)
            #expect(information.waiters == 1)
            #expect(information.queue == [WaitingSidecar(id: "0123456789ab", waiters: nil)])
        }
    }

    @Test("A sidecar reports its number twice a second after the first ten, however often it changes or is inspected")
    func limitedRate() async throws {
        try await Fleet.run(of: 2) { fleet in
            let (inspector, waiting) = (fleet.sidecars[0], fleet.sidecars[1])
            let lease = try await inspector.acquireLock(try LockRequest(Self.name))
            #expect(lease != nil)
            let first = try await Self.wait(1, in: waiting, tickets: 1, of: fleet)
            let clock = ContinuousClock()
            let start = clock.now
            let before = try await Self.reportedCounts(fleet)
            for _ in 0..<100 {
                let more = Task { try await waiting.acquireLock(try LockRequest(Self.name, wait: 60_000)) }
                try await eventually("the second caller waits") { await waiting.status.lockWaiterCount == 2 }
                #expect(try await Self.queue(at: inspector).map(\.id) == [waiting.id])
                more.cancel()
                await #expect(throws: CancellationError.self) { try await more.value }
            }
            try await eventually("the last number is reported") {
                try await Self.queue(at: inspector) == [WaitingSidecar(id: waiting.id, waiters: 1)]
            }
            let reportCount = try await Self.reportedCounts(fleet) - before
            #expect(reportCount > 1)
            let elapsed = clock.now - start
            // Each sidecar also publishes itself every five seconds.
            #expect(reportCount <= 11 + Int64(elapsed / .milliseconds(500)) + 2 * Int64(1 + elapsed / .seconds(5)))
            for task in first { task.cancel() }
        }
    }

    @Test("Inspections are answered while the sidecar shuts down")
    func shuttingDown() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            #expect(try await sidecar.acquireLock(try LockRequest(Self.name)) != nil)
            try await fleet.cli("ZADD", Self.queueKey, "1", "0123456789ab/ticket/00112233445566778899aabbccddeeff")
            let inspections = (0..<20).map { _ in Task { try await Self.queue(at: sidecar) } }
            await sidecar.drain()
            for inspection in inspections {
                #expect(try await inspection.value == [WaitingSidecar(id: "0123456789ab", waiters: nil)])
            }
        }
    }

    /// Returns the number of hash writes: waiter counts and the sidecars' own entries.
    private static func reportedCounts(_ fleet: Fleet) async throws -> Int64 {
        let statistics = try await fleet.redis.send(Info(section: "commandstats"))["cmdstat_hset"] ?? ""
        let calls = try #require(statistics.firstRange(of: "calls="))
        return Int64(statistics[calls.upperBound...].prefix { $0 != "," }) ?? 0
    }
}

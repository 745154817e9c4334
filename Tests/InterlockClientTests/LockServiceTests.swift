import Interlock
import InterlockClient
import InterlockCore
import InterlockProcesses
import Testing

/// The same test bodies with an embedded coordinator and with a sidecar.
@Suite("Locks, embedded and through a sidecar", .timeLimit(.minutes(2)), .serialized)
struct LockServiceTests {
    enum Library: String, CaseIterable, Sendable { case embedded, sidecar }

    /// Runs `body` with the locks of the library and with those of another client.
    private static func with(
        _ library: Library, _ body: (_ locks: any LockService, _ others: SidecarLocks) async throws -> Void
    ) async throws {
        try await TestSidecar.with { sidecar in
            try await SidecarClient.withClient(sidecar.configuration) { client in
                try await SidecarClient.withClient(sidecar.configuration) { other in
                    let locks: any LockService =
                        switch library {
                        case .embedded: sidecar.coordinator.locks
                        case .sidecar: client.locks
                        }
                    try await body(locks, other.locks)
                }
            }
        }
    }

    @Test("A lease is renewed and released automatically", arguments: Library.allCases)
    func leaseIsRenewedAndReleasedAutomatically(library: Library) async throws {
        try await Self.with(library) { locks, others in
            let lease = try #require(try await locks.acquire("orders", ttl: .seconds(20), owner: "web-1/job-7", label: "web-1"))
            #expect(lease.ttl == .seconds(20))
            #expect(try await others.acquire("orders") == nil)
            let information = try #require(try await locks.information(about: "orders"))
            #expect(information.label == "web-1")
            #expect(information.leases.map(\.fence) == [lease.fence])
            #expect(try await locks.renew(lease) != nil)
            let repeatedLease = try #require(try await locks.acquire("orders", owner: "web-1/job-7"))
            #expect(try await locks.release(repeatedLease))
            #expect(try await locks.release(repeatedLease) == false)
        }
    }

    @Test("Several locks are acquired in the order of their names, all or nothing", arguments: Library.allCases)
    func locksAreAcquiredInNameOrder(library: Library) async throws {
        try await Self.with(library) { locks, others in
            let leases = try #require(try await locks.acquire(all: ["b", "a"]))
            #expect(leases.map(\.name) == ["b", "a"])
            #expect(try await others.acquire(all: ["c", "b"]) == nil)
            let error = await #expect(throws: InterlockError.self) { try await locks.acquire(all: []) }
            #expect(error?.code == .invalid)
        }
    }

    @Test("A body runs on its caller's actor and can use the actor's state", arguments: Library.allCases)
    func isolation(library: Library) async throws {
        try await Self.with(library) { locks, _ in
            let ledger = Ledger()
            for _ in 0..<3 { try await ledger.add(under: locks) }
            #expect(await ledger.entries.count == 3)
        }
    }

    @Test(
        "A held lock fails withLock and makes withLockIfAvailable return nil, and neither body runs", arguments: Library.allCases)
    func held(library: Library) async throws {
        try await Self.with(library) { locks, others in
            let lease = try #require(try await others.acquire("orders", ttl: .seconds(60)))
            var runs = 0
            let heldError = await #expect(throws: InterlockError.self) { try await locks.withLock("orders") { _ in runs += 1 } }
            #expect(heldError?.code == .held)
            let late = await #expect(throws: InterlockError.self) {
                try await locks.withLock("orders", wait: .milliseconds(20)) { _ in runs += 1 }
            }
            #expect(late?.code == .waitTimedOut)
            #expect(try await locks.withLockIfAvailable("orders") { _ in runs += 1 } == nil)
            #expect(runs == 0)
            #expect(try await others.release(lease))
            #expect(try await locks.withLockIfAvailable("orders") { _ in 7 } == 7)
            #expect(try await locks.information(about: "orders")?.isHeld != true)
        }
    }

    @Test("Breaking the lock cancels the body and throws leaseLost", arguments: Library.allCases)
    func breakingLockCancelsBodyAndThrowsLeaseLost(library: Library) async throws {
        try await Self.with(library) { locks, others in
            let error = await #expect(throws: InterlockError.self) {
                try await locks.withLock("orders", ttl: .seconds(60)) { lease in
                    let wasBroken = try await others.breakLock("orders", fence: lease.fence)
                    #expect(wasBroken)
                    // The loop ends only when the task is cancelled, because nothing finishes the stream.
                    for await _ in AsyncStream<Void>.makeStream().stream {}
                }
            }
            #expect(error?.code == .leaseLost)
            #expect(error?.loss != nil)
        }
    }

    @Test("A wait that is cancelled throws CancellationError and leaves no lease", arguments: Library.allCases)
    func cancelled(library: Library) async throws {
        try await Self.with(library) { locks, others in
            let lease = try #require(try await others.acquire("orders", ttl: .seconds(60)))
            let waiting = Task { try await locks.withLock("orders", wait: .seconds(50)) { $0.fence } }
            try await eventually("the call waits") { try await others.information(about: "orders")?.waiters == 1 }
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
            #expect(try await others.release(lease))
            try await eventually("the lock is free") { try await others.information(about: "orders") == nil }
        }
    }
}

/// An actor with state that is not `Sendable`.
private actor Ledger {
    final class Entry {
        var fence: Int64

        init(fence: Int64) { self.fence = fence }
    }

    private(set) var entries: [Int64] = []
    private var last: Entry?

    func add(under locks: any LockService) async throws {
        let entry = try await locks.withLock("ledger", wait: .seconds(20)) { lease in
            self.assertIsolated()
            let entry = Entry(fence: lease.fence)
            self.last = entry
            return entry
        }
        entries.append(entry.fence)
    }
}

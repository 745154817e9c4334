import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Several locks acquired together, all or none", .timeLimit(.minutes(2)))
struct JointLockTests {
    @Test("All locks are acquired, each with its own token and fence, in the order of the request")
    func eachJointLockHasItsOwnFence() async throws {
        try await Fleet.run(of: 2) { fleet in
            let names = ["c", "a", "b"]
            let leases = try #require(try await fleet.sidecars[0].acquireLocks(try Self.request(names)))
            #expect(leases.map(\.name) == names)
            #expect(Set(leases.map(\.token)).count == 3)
            for lease in leases {
                #expect(lease.fence > 0)
                #expect((1...30_000).contains(lease.validMilliseconds))
                let token = try await fleet.cli("GET", Self.key(lease.name)).text
                #expect(token == lease.token)
                let attempt = try await fleet.sidecars[1].acquireLock(try LockRequest(lease.name))
                #expect(attempt == nil)
            }
            // Each lease can be released separately.
            for lease in leases {
                let isReleased = try await fleet.sidecars[1].releaseLock(try ResourceName(lease.name), token: lease.token)
                #expect(isReleased)
            }
        }
    }

    @Test("One lock and thirty-two locks are accepted", arguments: [1, 32])
    func oneLockAndThirtyTwoLocksAreAccepted(count: Int) async throws {
        try await Fleet.run { fleet in
            let leases = try await fleet.sidecars[0].acquireLocks(try Self.request((1...count).map { "job-\($0)" }))
            #expect(leases?.count == count)
        }
    }

    @Test(
        "If another caller holds one of them, none is acquired, even at the end of a wait", arguments: ["a", "b", "c"],
        [Int64(0), 100])
    func oneHeld(held: String, wait: Int64) async throws {
        try await Fleet.run(of: 2) { fleet in
            let holder = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest(held)))
            let leases = try await fleet.sidecars[1].acquireLocks(try Self.request(["c", "b", "a"], wait: wait))
            #expect(leases == nil)
            for name in ["a", "b", "c"] where name != held {
                try await eventually("\(name) is free, and no one waits for it") {
                    try await fleet.cli("EXISTS", Self.key(name), "interlock:queue:{\(name)}").integer == 0
                }
            }
            let token = try await fleet.cli("GET", Self.key(held)).text
            #expect(token == holder.token)
            let waiting = await fleet.sidecars[1].status.lockWaiterCount
            #expect(waiting == 0)
        }
    }

    @Test("A caller that waits for the last lock gets all of them when it is released")
    func waits() async throws {
        try await Fleet.run(of: 2) { fleet in
            let holder = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("c")))
            async let waiting = fleet.sidecars[1].acquireLocks(try Self.request(["c", "a", "b"], wait: 60_000))
            try await Self.waitUntilCallerWaits(for: "c", in: fleet)
            let isReleased = try await fleet.sidecars[0].releaseLock(try ResourceName("c"), token: holder.token)
            #expect(isReleased)
            let leases = try #require(try await waiting)
            #expect(leases.map(\.name) == ["c", "a", "b"])
            // The wait reduces the remaining validity of the first leases.
            #expect(leases.allSatisfy { (1...30_000).contains($0.validMilliseconds) })
        }
    }

    @Test("Two callers that want the same locks in opposite orders do not deadlock")
    func noDeadlock() async throws {
        try await Fleet.run(of: 2) { fleet in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (sidecar, names) in zip(fleet.sidecars, [["a", "b"], ["b", "a"]]) {
                    group.addTask {
                        for _ in 0..<50 {
                            let request = try Self.request(names, wait: 60_000)
                            let leases = try #require(try await sidecar.acquireLocks(request))
                            await Task.yield()
                            for lease in leases {
                                let isReleased = try await sidecar.releaseLock(try ResourceName(lease.name), token: lease.token)
                                #expect(isReleased)
                            }
                        }
                    }
                }
                try await group.waitForAll()
            }
            for name in ["a", "b"] {
                try await eventually("\(name) is free, and no one waits for it") {
                    try await fleet.cli("EXISTS", Self.key(name), "interlock:queue:{\(name)}").integer == 0
                }
            }
        }
    }

    @Test("The wait applies to all locks together")
    func commonWait() async throws {
        try await Fleet.run(of: 2) { fleet in
            let first = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("a", ttl: 600_000)))
            _ = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("b", ttl: 600_000)))
            let clock = ContinuousClock()
            let requested = clock.now
            async let waiting = fleet.sidecars[1].acquireLocks(try Self.request(["a", "b"], wait: 4000))
            try await eventually("three quarters of the wait are over") { clock.now - requested >= .seconds(3) }
            let isReleased = try await fleet.sidecars[0].releaseLock(try ResourceName("a"), token: first.token)
            #expect(isReleased)
            let leases = try await waiting
            #expect(leases == nil)
            // A separate wait for the second lock would have ended after seven seconds.
            #expect(clock.now - requested < .seconds(6))
        }
    }

    @Test("Cancelling during the wait for the second lock releases the first")
    func cancelled() async throws {
        try await Fleet.run(of: 2) { fleet in
            let sidecar = fleet.sidecars[1]
            let holder = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("b")))
            let caller = Task { try await sidecar.acquireLocks(try Self.request(["b", "a"], wait: 60_000)) }
            try await Self.waitUntilCallerWaits(for: "b", in: fleet)
            let isTaken = try await fleet.cli("EXISTS", Self.key("a")).integer
            #expect(isTaken == 1)
            caller.cancel()
            await #expect(throws: CancellationError.self) { try await caller.value }
            try await eventually("the first lock is free, and no one waits for the second") {
                try await fleet.cli("EXISTS", Self.key("a"), "interlock:queue:{b}").integer == 0
            }
            let isReleased = try await fleet.sidecars[0].releaseLock(try ResourceName("b"), token: holder.token)
            #expect(isReleased)
            try await eventually("the second lock stays free") { try await fleet.cli("EXISTS", Self.key("b")).integer == 0 }
        }
    }

    @Test("Cancelling at any moment leaves nothing behind")
    func cancelledAnywhere() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            for round in 0..<50 {
                let caller = Task { try await sidecar.acquireLocks(try Self.request(["a", "b", "c"])) }
                for _ in 0..<(round % 10) { await Task.yield() }
                caller.cancel()
                guard let leases = try? await caller.value else { continue }
                for lease in leases {
                    _ = try await sidecar.releaseLock(try ResourceName(lease.name), token: lease.token)
                }
            }
            try await eventually("all locks are free") {
                try await fleet.cli("EXISTS", Self.key("a"), Self.key("b"), Self.key("c")).integer == 0
            }
        }
    }

    @Test("An owner that acquires again has the same leases")
    func sameOwner() async throws {
        try await Fleet.run(of: 2) { fleet in
            let request = try Self.request(["b", "a"], owner: "job-7")
            let first = try #require(try await fleet.sidecars[0].acquireLocks(request))
            let repeatedLeases = try #require(try await fleet.sidecars[1].acquireLocks(request))
            #expect(repeatedLeases.map(\.token) == ["job-7", "job-7"])
            #expect(repeatedLeases.map(\.fence) == first.map(\.fence))
        }
    }

    @Test(
        "An empty list, too many names and a repeated name are invalid",
        arguments: [[], (1...33).map { "job-\($0)" }, ["a", "b", "a"]] as [[String]])
    func invalidNames(names: [String]) async throws {
        try await Fleet.run { fleet in
            let code = await Self.code { _ = try await fleet.sidecars[0].acquireLocks(try Self.request(names)) }
            #expect(code == .invalid)
            let keys = try await fleet.cli("KEYS", "interlock:lock:*").array
            #expect(keys == [])
        }
    }

    @Test("Locks that are acquired together are exclusive", arguments: [LockMode.shared, .permits(2)])
    func invalidMode(mode: LockMode) async throws {
        try await Fleet.run { fleet in
            let request = try Self.request(["a", "b"], mode: mode)
            let code = await Self.code { _ = try await fleet.sidecars[0].acquireLocks(request) }
            #expect(code == .invalid)
        }
    }

    @Test("A ttl that is invalid for one lock is invalid for several", arguments: [Int64(0), 3_600_001])
    func invalidTTL(ttl: Int64) async throws {
        try await Fleet.run { fleet in
            let code = await Self.code { _ = try await fleet.sidecars[0].acquireLocks(try Self.request(["a", "b"], ttl: ttl)) }
            #expect(code == .invalid)
        }
    }
}

extension JointLockTests {
    private static func key(_ name: String) -> String { "interlock:lock:{\(name)}" }

    private static func request(
        _ names: [String], ttl: Int64 = 30_000, wait: Int64 = 0, owner: String? = nil, mode: LockMode = .exclusive
    ) throws -> JointLockRequest {
        // The template's name does not matter.
        var template = try LockRequest("any", ttl: ttl, wait: wait, owner: owner)
        template.mode = mode
        return JointLockRequest(names: try names.map { try ResourceName($0) }, template: template)
    }

    private static func waitUntilCallerWaits(for name: String, in fleet: Fleet) async throws {
        try await eventually("a caller waits for \(name)") {
            try await fleet.cli("ZCARD", "interlock:queue:{\(name)}").integer == 1
        }
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

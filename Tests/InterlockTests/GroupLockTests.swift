import Hiredis
import Interlock
import InterlockCore
import InterlockProcesses
import NIOConcurrencyHelpers
import Testing

@Suite("Locks that several hold", .timeLimit(.minutes(3)))
struct GroupLockTests {
    // MARK: Readers and writers

    @Test("readers hold it together through any sidecar, and a writer gets it when the last of them has released it")
    func readersTogether() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            var readers: [Lease] = []
            for sidecar in fleet.sidecars {
                readers.append(try #require(try await sidecar.acquireLock(try Self.wish(.shared))))
            }
            for reader in readers {
                for sidecar in fleet.sidecars {
                    let refused = try await sidecar.acquireLock(try Self.wish(.exclusive))
                    #expect(refused == nil)
                }
                // Through whichever sidecar.
                let isReleased = try await fleet.sidecars[1].releaseLock(name, token: reader.token)
                #expect(isReleased)
            }
            let writer = try await fleet.sidecars[0].acquireLock(try Self.wish(.exclusive))
            #expect(writer != nil)
            for sidecar in fleet.sidecars {
                let refused = try await sidecar.acquireLock(try Self.wish(.shared))
                #expect(refused == nil)
            }
        }
    }

    @Test("each reader has a higher fence than all before it")
    func fencesRise() async throws {
        try await Fleet.run(of: 2) { fleet in
            var fences: [Int64] = []
            for turn in 0..<10 {
                let lease = try #require(try await fleet.sidecars[turn % 2].acquireLock(try Self.wish(.shared)))
                fences.append(lease.fence)
            }
            #expect(fences == fences.sorted())
            #expect(Set(fences).count == fences.count)
        }
    }

    @Test("a writer waits for all readers, and those who keep coming do not pass it", arguments: [0, 1])
    func writerIsNotStarved(home: Int) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            var readers: [Lease] = []
            for sidecar in fleet.sidecars {
                readers.append(try #require(try await sidecar.acquireLock(try Self.wish(.shared))))
            }
            let sidecar = fleet.sidecars[home]
            let writer = Task { try await sidecar.acquireLock(try Self.wish(.exclusive, wait: 60_000)) }
            try await Self.untilTicketsStand(1, in: fleet)

            for sidecar in fleet.sidecars {
                let refused = try await sidecar.acquireLock(try Self.wish(.shared))
                #expect(refused == nil)
            }
            let latecomers = fleet.sidecars.map { sidecar in
                Task { try await sidecar.acquireLock(try Self.wish(.shared, wait: 60_000)) }
            }
            try await Self.untilWaiting(3, in: fleet)

            for reader in readers {
                let waiting = await Self.waiting(in: fleet)
                #expect(waiting == 3)
                let isReleased = try await fleet.sidecars[0].releaseLock(name, token: reader.token)
                #expect(isReleased)
            }
            let written = try #require(try await writer.value)
            let stillWaiting = await Self.waiting(in: fleet)
            #expect(stillWaiting == 2)

            let isReleased = try await sidecar.releaseLock(name, token: written.token)
            #expect(isReleased)
            for latecomer in latecomers {
                let lease = try #require(try await latecomer.value)
                #expect(lease.fence > written.fence)
            }
        }
    }

    @Test("all readers that waited behind a writer hold it together after it", arguments: [0, 1])
    func readersAfterWriter(releaser: Int) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let writer = try #require(try await fleet.sidecars[0].acquireLock(try Self.wish(.exclusive)))
            let readers = (0..<6).map { number in
                let sidecar = fleet.sidecars[number % 2]
                return Task { try await sidecar.acquireLock(try Self.wish(.shared, wait: 60_000)) }
            }
            try await Self.untilWaiting(6, in: fleet)
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

    @Test("a reader's lease that lapses ends it for that reader alone")
    func readerLapses() async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            let brief = try #require(try await sidecar.acquireLock(try Self.wish(.shared, ttl: 300)))
            let long = try #require(try await sidecar.acquireLock(try Self.wish(.shared, ttl: 60_000)))
            try await eventually("one is left") { try await sidecar.inspectLock(name)?.holders == 1 }
            let renewal = try await sidecar.renewLock(name, token: brief.token, ttl: 60_000)
            #expect(renewal == nil)
            let isReleased = try await sidecar.releaseLock(name, token: brief.token)
            #expect(!isReleased)
            let valid = try #require(try await sidecar.renewLock(name, token: long.token, ttl: 600_000))
            #expect(valid > 300_000)
        }
    }

    @Test("a writer that gives up lets the readers in who waited behind it, here and at another sidecar", arguments: [0, 1])
    func writerGivesUp(home: Int) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let reader = try #require(try await fleet.sidecars[0].acquireLock(try Self.wish(.shared)))
            let writer = Task { try await fleet.sidecars[0].acquireLock(try Self.wish(.exclusive, wait: 60_000)) }
            try await eventually("the writer waits") {
                try await fleet.sidecars[1].inspectLock(name)?.waiters == 1
            }
            let sidecar = fleet.sidecars[home]
            let next = Task { try await sidecar.acquireLock(try Self.wish(.shared, wait: 60_000)) }
            try await eventually("the reader waits behind it") {
                let waiting = await sidecar.status.locksWaiting
                let waiters = try await fleet.sidecars[1].inspectLock(name)?.waiters
                return waiting == (home == 0 ? 2 : 1) && waiters == (home == 0 ? 1 : 2)
            }
            let clock = ContinuousClock()
            let start = clock.now
            writer.cancel()
            let lease = try await next.value
            #expect(lease != nil)
            // Well before the recheck that makes up for lost messages.
            #expect(clock.now - start < .seconds(3))
            let isReleased = try await fleet.sidecars[0].releaseLock(name, token: reader.token)
            #expect(isReleased)
        }
    }

    // MARK: Semaphores

    @Test("three hold a semaphore of three; the next in line has the place of the first who releases", arguments: [0, 1, 2])
    func semaphore(leaver: Int) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            var holders: [Lease] = []
            for turn in 0..<3 {
                holders.append(try #require(try await fleet.sidecars[turn % 2].acquireLock(try Self.wish(.permits(3)))))
            }
            let refused = try await fleet.sidecars[0].acquireLock(try Self.wish(.permits(3)))
            #expect(refused == nil)
            let sidecar = fleet.sidecars[1]
            let fourth = Task { try await sidecar.acquireLock(try Self.wish(.permits(3), wait: 60_000)) }
            try await Self.untilTicketsStand(1, in: fleet)
            let isReleased = try await fleet.sidecars[0].releaseLock(name, token: holders[leaver].token)
            #expect(isReleased)
            let granted = try #require(try await fourth.value)
            #expect(holders.allSatisfy { $0.fence < granted.fence })
            let fifth = try await sidecar.acquireLock(try Self.wish(.permits(3)))
            #expect(fifth == nil)
            let information = try await sidecar.inspectLock(name)
            #expect(information?.holders == 3)
        }
    }

    @Test("places of leases that lapse one by one go to those who wait")
    func lapsingPlaces() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            for ttl in [Int64(300), 600, 900] {
                _ = try #require(try await fleet.sidecars[0].acquireLock(try Self.wish(.permits(3), ttl: ttl)))
            }
            let waiters = (0..<3).map { number in
                let sidecar = fleet.sidecars[number % 2]
                return Task { try await sidecar.acquireLock(try Self.wish(.permits(3), ttl: 600_000, wait: 60_000)) }
            }
            for waiter in waiters {
                let lease = try await waiter.value
                #expect(lease != nil)
            }
            let information = try await fleet.sidecars[0].inspectLock(name)
            #expect(information?.holders == 3)
        }
    }

    @Test("how many places there are is what its first holder said")
    func firstHolderDecides() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            var holders: [Lease] = []
            for places in [2, 5] {
                holders.append(try #require(try await fleet.sidecars[0].acquireLock(try Self.wish(.permits(places)))))
            }
            let refused = try await fleet.sidecars[1].acquireLock(try Self.wish(.permits(5)))
            #expect(refused == nil)
            for holder in holders { _ = try await fleet.sidecars[0].releaseLock(name, token: holder.token) }
            // Who comes after them begins another.
            for _ in 0..<3 {
                let lease = try await fleet.sidecars[1].acquireLock(try Self.wish(.permits(3)))
                #expect(lease != nil)
            }
        }
    }

    // MARK: What does not go together

    @Test(
        "a semaphore goes together with nothing else: that is an error of the caller, waiting or not",
        arguments: [
            (LockMode.exclusive, LockMode.permits(2)), (.shared, .permits(2)), (.permits(2), .exclusive),
            (.permits(2), .shared),
        ], [Int64(0), 60_000])
    func mixed(modes: (LockMode, LockMode), wait: Int64) async throws {
        let (held, asked) = modes
        try await Fleet.run(of: 2) { fleet in
            _ = try #require(try await fleet.sidecars[0].acquireLock(try Self.wish(held)))
            for sidecar in fleet.sidecars {
                let code = await Self.code { _ = try await sidecar.acquireLock(try Self.wish(asked, wait: wait)) }
                #expect(code == .invalid)
                let waiting = await sidecar.status.locksWaiting
                #expect(waiting == 0)
            }
        }
    }

    @Test("readers and a writer merely exclude each other", arguments: [LockMode.shared, .exclusive])
    func excluded(held: LockMode) async throws {
        try await Fleet.run { fleet in
            let asked: LockMode = held == .shared ? .exclusive : .shared
            _ = try #require(try await fleet.sidecars[0].acquireLock(try Self.wish(held)))
            let refused = try await fleet.sidecars[0].acquireLock(try Self.wish(asked))
            #expect(refused == nil)
            let stillRefused = try await fleet.sidecars[0].acquireLock(try Self.wish(asked, wait: 50))
            #expect(stillRefused == nil)
        }
    }

    // MARK: Owners and tokens

    @Test(
        "the same owner again holds it once, with the same fence, also through another sidecar",
        arguments: [LockMode.shared, .permits(2)])
    func sameOwner(mode: LockMode) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let first = try #require(try await fleet.sidecars[0].acquireLock(try Self.wish(mode, owner: "job-7")))
            // Whoever comes in between changes nothing about that.
            let other = try #require(try await fleet.sidecars[0].acquireLock(try Self.wish(mode)))
            #expect(other.fence > first.fence)
            let again = try #require(
                try await fleet.sidecars[1].acquireLock(try Self.wish(mode, ttl: 60_000, owner: "job-7")))
            #expect(again.token == "job-7")
            #expect(again.fence == first.fence)
            let information = try await fleet.sidecars[0].inspectLock(name)
            #expect(information?.holders == 2)
            #expect(information?.ttlMilliseconds ?? 0 > 30_000)
            let isReleased = try await fleet.sidecars[0].releaseLock(name, token: "job-7")
            #expect(isReleased)
            let isReleasedAgain = try await fleet.sidecars[0].releaseLock(name, token: "job-7")
            #expect(!isReleasedAgain)
        }
    }

    @Test("only its token renews or releases a lease", arguments: [LockMode.shared, .permits(2)])
    func byTokenOnly(mode: LockMode) async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try Self.wish(mode)))
            let foreignRenewal = try await sidecar.renewLock(name, token: "somebody", ttl: 60_000)
            #expect(foreignRenewal == nil)
            let foreignRelease = try await sidecar.releaseLock(name, token: "somebody")
            #expect(!foreignRelease)
            let valid = try #require(try await sidecar.renewLock(name, token: lease.token, ttl: 60_000))
            #expect(valid > 50_000)
            let isReleased = try await sidecar.releaseLock(name, token: lease.token)
            #expect(isReleased)
            let isReleasedAgain = try await sidecar.releaseLock(name, token: lease.token)
            #expect(!isReleasedAgain)
            let lateRenewal = try await sidecar.renewLock(name, token: lease.token, ttl: 60_000)
            #expect(lateRenewal == nil)
        }
    }

    @Test("the name of the group, which stands in the lock, is nobody's token", arguments: [LockMode.shared, .permits(2)])
    func groupName(mode: LockMode) async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try Self.wish(mode, ttl: 30_000)))
            let group = try #require(try await fleet.cli("GET", Self.lockKey).text)
            #expect(group != lease.token)

            // Refused as lost or as wrong, as long as it is refused.
            let renewal = try? await sidecar.renewLock(name, token: group, ttl: 600_000)
            #expect(renewal == nil)
            let isReleased = (try? await sidecar.releaseLock(name, token: group)) ?? false
            #expect(!isReleased)
            for mode in [mode, .exclusive] {
                let code = await Self.code { _ = try await sidecar.acquireLock(try Self.wish(mode, owner: group)) }
                #expect(code == .invalid)
            }

            let remaining = try #require(try await fleet.cli("PTTL", Self.lockKey).integer)
            #expect((1...30_000).contains(remaining))
            let isStillHeld = try await sidecar.releaseLock(name, token: lease.token)
            #expect(isStillHeld)
        }
    }

    // MARK: Looking, and taking away

    @Test("a break ends the leases of all who hold it, and a writer gets it", arguments: [LockMode.shared, .permits(3)])
    func broken(mode: LockMode) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            var leases: [Lease] = []
            for turn in 0..<3 {
                leases.append(try #require(try await fleet.sidecars[turn % 2].acquireLock(try Self.wish(mode))))
            }
            let isBroken = try await fleet.sidecars[1].breakLock(name, by: "ops")
            #expect(isBroken)
            for lease in leases {
                let renewal = try await fleet.sidecars[0].renewLock(name, token: lease.token, ttl: 30_000)
                #expect(renewal == nil)
            }
            let next = try #require(try await fleet.sidecars[0].acquireLock(try Self.wish(.exclusive)))
            #expect(leases.allSatisfy { $0.fence < next.fence })
        }
    }

    @Test(
        "anybody may see how it is held and by how many, and nobody's token",
        arguments: [(LockMode.shared, "shared"), (.permits(3), "permits-3")])
    func inspected(mode: LockMode, label: String) async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[1]
            _ = try #require(try await fleet.sidecars[0].acquireLock(try Self.wish(mode, ttl: 20_000)))
            let last = try #require(try await sidecar.acquireLock(try Self.wish(mode, ttl: 60_000)))
            let information = try await sidecar.inspectLock(name)
            #expect(information?.label == label)
            #expect(information?.holders == 2)
            #expect(information?.fence == last.fence)
            // Of several the longest.
            #expect(information?.ttlMilliseconds ?? 0 > 30_000)
        }
    }

    @Test(
        "in Redis the lock is a string with a ttl, with its holders beside it; after the last release only the fence is left",
        arguments: [(LockMode.shared, "shared"), (.permits(3), "permits-3")])
    func keys(mode: LockMode, label: String) async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            var leases: [Lease] = []
            for _ in 0..<2 { leases.append(try #require(try await sidecar.acquireLock(try Self.wish(mode)))) }

            let type = try await fleet.cli("TYPE", Self.lockKey).text
            #expect(type == "string")
            let group = try #require(try await fleet.cli("GET", Self.lockKey).text)
            #expect(OwnerToken.label(of: group) == label)
            let holdersType = try await fleet.cli("TYPE", Self.holdersKey).text
            #expect(holdersType == "zset")
            let members = try await fleet.cli("ZRANGE", Self.holdersKey, "0", "-1").array?.compactMap(\.text) ?? []
            #expect(Set(members) == Set(leases.map(\.token) + [group]))
            for key in [Self.lockKey, Self.holdersKey] {
                let lasts = try #require(try await fleet.cli("PTTL", key).integer)
                #expect((1...30_000).contains(lasts), "\(key)")
            }

            for lease in leases { _ = try await sidecar.releaseLock(name, token: lease.token) }
            let left = try await fleet.cli("KEYS", "interlock:*{orders}*").array?.compactMap(\.text)
            #expect(left == ["interlock:fence:{orders}"])
        }
    }

    // MARK: Many at once

    @Test("thirty-two callers through four sidecars: never more than three hold a semaphore of three")
    func semaphoreUnderLoad() async throws {
        try await Fleet.run(of: 4) { fleet in
            let name = try ResourceName("orders")
            let room = Room()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<32 {
                    let sidecar = fleet.sidecars[caller % 4]
                    group.addTask {
                        for _ in 0..<50 {
                            let wish = try Self.wish(.permits(3), ttl: 600_000, wait: 60_000)
                            let lease = try #require(try await sidecar.acquireLock(wish))
                            room.enter(isWriter: false)
                            await Task.yield()
                            room.leave(isWriter: false)
                            let isReleased = try await sidecar.releaseLock(name, token: lease.token)
                            #expect(isReleased)
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect((2...3).contains(room.mostReaders))
            try await Self.untilNothingIsLeft(in: fleet)
        }
    }

    @Test("twenty-four callers through three sidecars, one in four a writer: never a writer with anybody else")
    func readersAndWritersUnderLoad() async throws {
        try await Fleet.run(of: 3) { fleet in
            let name = try ResourceName("orders")
            let room = Room()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<24 {
                    let sidecar = fleet.sidecars[caller % 3]
                    group.addTask {
                        for cycle in 0..<30 {
                            let isWriter = (caller + cycle) % 4 == 0
                            let wish = try Self.wish(isWriter ? .exclusive : .shared, ttl: 600_000, wait: 60_000)
                            let lease = try #require(try await sidecar.acquireLock(wish))
                            room.enter(isWriter: isWriter)
                            await Task.yield()
                            room.leave(isWriter: isWriter)
                            let isReleased = try await sidecar.releaseLock(name, token: lease.token)
                            #expect(isReleased)
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(room.conflicts == 0)
            #expect(room.mostReaders > 1)
            try await Self.untilNothingIsLeft(in: fleet)
        }
    }
}

extension GroupLockTests {
    private static let lockKey = "interlock:lock:{orders}"
    private static let holdersKey = "interlock:holders:{orders}"

    private static func wish(
        _ mode: LockMode, ttl: Int64 = 30_000, wait: Int64 = 0, owner: String? = nil
    ) throws -> LockRequest {
        LockRequest(name: try ResourceName("orders"), ttl: ttl, wait: wait, owner: owner, mode: mode)
    }

    private static func waiting(in fleet: Fleet) async -> Int {
        var count = 0
        for sidecar in fleet.sidecars { count += await sidecar.status.locksWaiting }
        return count
    }

    private static func untilWaiting(_ count: Int, in fleet: Fleet) async throws {
        try await eventually("\(count) wait") { await waiting(in: fleet) == count }
    }

    private static func untilTicketsStand(_ count: Int64, in fleet: Fleet) async throws {
        try await eventually("\(count) tickets stand in the queue") {
            try await fleet.cli("ZCARD", "interlock:queue:{orders}").integer == count
        }
    }

    private static func untilNothingIsLeft(in fleet: Fleet) async throws {
        try await eventually("nobody holds it or waits for it") {
            try await fleet.cli("EXISTS", lockKey, holdersKey, "interlock:grants:{orders}", "interlock:queue:{orders}").integer
                == 0
        }
    }

    /// The code of the error that `call` fails with; `nil`: it does not, or with another error.
    private static func code(of call: () async throws -> Void) async -> InterlockError.Code? {
        do {
            try await call()
            return nil
        } catch {
            return (error as? InterlockError)?.code
        }
    }

    /// Counts who is inside at one time.
    private final class Room: Sendable {
        private struct State {
            var readers = 0
            var writers = 0
            var mostReaders = 0
            var conflicts = 0
        }

        private let state = NIOLockedValueBox(State())

        var mostReaders: Int { state.withLockedValue { $0.mostReaders } }
        /// How often a writer was inside with somebody else.
        var conflicts: Int { state.withLockedValue { $0.conflicts } }

        func enter(isWriter: Bool) {
            state.withLockedValue { state in
                if isWriter { state.writers += 1 } else { state.readers += 1 }
                state.mostReaders = max(state.mostReaders, state.readers)
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

import Interlock
import InterlockCore
import InterlockProcesses
import RedisClient
import Testing

@Suite("Locks on a real Redis server")
struct LockTests {
    @Test("A lock has one holder across sidecars, and an inspection shows its label")
    func lockHasOneHolderAcrossSidecars() async throws {
        try await Fleet.run(of: 2) { fleet in
            let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders", label: "web-1")))
            #expect(lease.token.hasPrefix("web-1/"))
            #expect(lease.validMilliseconds <= 30_000 - LeaseValidity.driftMilliseconds(ofTTL: 30_000))
            for sidecar in fleet.sidecars {
                #expect(try await sidecar.acquireLock(try LockRequest("orders")) == nil)
            }
            #expect(try await fleet.cli("GET", "interlock:lock:{orders}").text == lease.token)
            #expect(try await fleet.cli("GET", "interlock:fence:{orders}").integer == lease.fence)
            let information = try await fleet.sidecars[1].inspectLock(try ResourceName("orders"))
            #expect(information?.label == "web-1")
            #expect(information?.fence == lease.fence)
        }
    }

    @Test("Fences strictly rise with every grant, even after all data was lost")
    func fencesRiseAfterDataLoss() async throws {
        try await Fleet.run(of: 2) { fleet in
            var last: Int64 = 0
            for index in 0..<40 {
                let sidecar = fleet.sidecars[index % 2]
                let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
                #expect(lease.fence > last)
                last = lease.fence
                if index % 10 == 9 {
                    try await fleet.cli("FLUSHALL")
                } else {
                    #expect(try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token))
                }
            }
        }
    }

    @Test("The same owner gets the same lease and fence again, renewed, even through another sidecar")
    func idempotentOwner() async throws {
        try await Fleet.run(of: 2) { fleet in
            let request = try LockRequest("orders", ttl: 10_000, owner: "job-7")
            let first = try #require(try await fleet.sidecars[0].acquireLock(request))
            let repeatedLease = try #require(try await fleet.sidecars[1].acquireLock(try LockRequest("orders", owner: "job-7")))
            #expect(repeatedLease.token == "job-7")
            #expect(repeatedLease.fence == first.fence)
            #expect(try await fleet.cli("PTTL", "interlock:lock:{orders}").integer ?? 0 > 20_000)
            #expect(try await fleet.sidecars[0].releaseLock(try ResourceName("orders"), token: "job-7"))
        }
    }

    @Test("An owner's retry finds its lease although others are queued before it")
    func retryBehindWaiters() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let first = try #require(try await sidecar.acquireLock(try LockRequest("orders", owner: "job-7")))
            async let waiting = sidecar.acquireLock(try LockRequest("orders", wait: 20_000))
            try await eventually(within: .seconds(5), "a caller waits") { await sidecar.status.lockWaiterCount == 1 }
            let repeatedLease = try await sidecar.acquireLock(try LockRequest("orders", owner: "job-7"))
            #expect(repeatedLease?.fence == first.fence)
            #expect(try await sidecar.releaseLock(try ResourceName("orders"), token: "job-7"))
            #expect(try await waiting != nil)
        }
    }

    @Test("A lease is renewed or released only with its token")
    func onlyTokenRenewsOrReleasesLease() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let name = try ResourceName("orders")
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 5_000)))
            #expect(try await sidecar.renewLock(name, token: "somebody", ttlMilliseconds: 5_000) == nil)
            #expect(try await sidecar.releaseLock(name, token: "somebody") == false)
            #expect(try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 60_000) ?? 0 > 50_000)
            #expect(try await sidecar.releaseLock(name, token: lease.token))
            #expect(try await sidecar.releaseLock(name, token: lease.token) == false)
            #expect(try await sidecar.renewLock(name, token: lease.token, ttlMilliseconds: 5_000) == nil)
        }
    }

    @Test("A waiter is woken by a release through another sidecar")
    func wokenAcrossSidecars() async throws {
        try await Fleet.run(of: 2) { fleet in
            let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders")))
            async let next = fleet.sidecars[1].acquireLock(try LockRequest("orders", wait: 20_000))
            try await eventually(within: .seconds(5), "the waiter's ticket is in the queue") {
                try await fleet.cli("ZCARD", "interlock:queue:{orders}").integer == 1
            }
            let clock = ContinuousClock()
            let releaseTime = clock.now
            #expect(try await fleet.sidecars[0].releaseLock(try ResourceName("orders"), token: lease.token))
            let nextLease = try #require(try await next)
            #expect(nextLease.fence > lease.fence)
            // The periodic recheck, which makes up for lost messages, would come much later.
            #expect(clock.now - releaseTime < .seconds(3))
        }
    }

    @Test("A waiter is woken when the holder's lease ends without a release")
    func wokenByExpiry() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", ttl: 300)))
            let next = try #require(try await sidecar.acquireLock(try LockRequest("orders", wait: 20_000)))
            #expect(next.fence > lease.fence)
        }
    }

    @Test("The waiters of one sidecar are served in the order of arrival")
    func firstComeFirstServed() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let name = try ResourceName("orders")
            let first = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
            try await withThrowingTaskGroup(of: (Int, Int64).self) { group in
                for position in 1...8 {
                    group.addTask {
                        let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", wait: 30_000)))
                        _ = try await sidecar.releaseLock(name, token: lease.token)
                        return (position, lease.fence)
                    }
                    try await eventually(within: .seconds(5), "waiter \(position) is in the queue") {
                        await sidecar.status.lockWaiterCount == position
                    }
                }
                _ = try await sidecar.releaseLock(name, token: first.token)
                var fences: [(position: Int, fence: Int64)] = []
                for try await (position, fence) in group { fences.append((position, fence)) }
                #expect(fences.sorted { $0.fence < $1.fence }.map(\.position) == Array(1...8))
            }
        }
    }

    @Test("A wait that times out is answered as held and leaves nothing behind")
    func waitTimesOut() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
            #expect(try await sidecar.acquireLock(try LockRequest("orders", wait: 50)) == nil)
            #expect(await sidecar.status.lockWaiterCount == 0)
            #expect(try await fleet.cli("GET", "interlock:lock:{orders}").text == lease.token)
        }
    }

    @Test("A caller cancelled while waiting leaves the queue, and the next one gets the lock")
    func cancelledWait() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
            let leaver = Task { try await sidecar.acquireLock(try LockRequest("orders", wait: 30_000)) }
            try await eventually(within: .seconds(5), "the leaver waits") { await sidecar.status.lockWaiterCount == 1 }
            async let next = sidecar.acquireLock(try LockRequest("orders", wait: 30_000))
            try await eventually(within: .seconds(5), "both callers wait") { await sidecar.status.lockWaiterCount == 2 }
            leaver.cancel()
            await #expect(throws: CancellationError.self) { try await leaver.value }
            _ = try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token)
            #expect(try await next != nil)
        }
    }

    @Test("A lock granted to a caller that has left is released")
    func releasedForLeaver() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            for _ in 0..<50 {
                let caller = Task { try await sidecar.acquireLock(try LockRequest("orders")) }
                caller.cancel()
                if let lease = try? await caller.value {
                    _ = try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token)
                }
            }
            try await eventually(within: .seconds(5), "the lock is free") {
                try await fleet.cli("EXISTS", "interlock:lock:{orders}").integer == 0
            }
        }
    }

    @Test("A break frees a lease for good and notifies the fleet, and a value that is not a lease is unchanged")
    func breakFreesLeaseForGood() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            var events = fleet.sidecars[1].events.locks.makeAsyncIterator()
            let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders")))
            async let next = fleet.sidecars[1].acquireLock(try LockRequest("orders", wait: 20_000))
            try await eventually(within: .seconds(5), "the waiter's ticket is in the queue") {
                try await fleet.cli("ZCARD", "interlock:queue:{orders}").integer == 1
            }
            #expect(try await fleet.sidecars[0].breakLock(name, by: "ops"))
            let nextLease = try #require(try await next)
            #expect(nextLease.fence > lease.fence)
            #expect(try await fleet.sidecars[0].renewLock(name, token: lease.token, ttlMilliseconds: 1000) == nil)
            let event = await events.next()
            #expect(event?.payload == LockEvent(kind: .broken, lock: "orders", brokenBy: "ops"))
            try await fleet.cli("SET", "interlock:lock:{forever}", "x")
            try await fleet.cli("LPUSH", "interlock:lock:{list}", "x")
            #expect(try await fleet.sidecars[0].breakLock(try ResourceName("forever"), by: "ops") == false)
            #expect(try await fleet.sidecars[0].breakLock(try ResourceName("list"), by: "ops") == false)
            #expect(try await fleet.cli("EXISTS", "interlock:lock:{forever}", "interlock:lock:{list}").integer == 2)
        }
    }

    @Test("A break that names a fence spares the next holder")
    func breakingUnderAFence() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let observedLease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders")))
            _ = try await fleet.sidecars[0].releaseLock(name, token: observedLease.token)
            let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders")))
            #expect(try await fleet.sidecars[1].breakLock(name, by: "ops", fence: observedLease.fence) == false)
            #expect(try await fleet.sidecars[0].renewLock(name, token: lease.token, ttlMilliseconds: 30_000) != nil)
            #expect(try await fleet.sidecars[1].breakLock(name, by: "ops", fence: lease.fence))
            #expect(try await fleet.sidecars[1].breakLock(name, by: "ops", fence: lease.fence) == false)
            try await fleet.cli("SET", "interlock:lock:{orders}", "foreign", "PX", "60000")
            try await fleet.cli("DEL", "interlock:fence:{orders}")
            try await fleet.cli("LPUSH", "interlock:fence:{orders}", "x")
            #expect(try await fleet.sidecars[1].breakLock(name, by: "ops", fence: lease.fence) == false)
        }
    }

    @Test("A key that is not a string is an error, and nothing is partially applied")
    func wrongType() async throws {
        try await Fleet.run { fleet in
            try await fleet.cli("LPUSH", "interlock:fence:{orders}", "x")
            await #expect(throws: InterlockError.self) { try await fleet.sidecars[0].acquireLock(try LockRequest("orders")) }
            #expect(try await fleet.cli("EXISTS", "interlock:lock:{orders}").integer == 0)
            try await fleet.cli("LPUSH", "interlock:lock:{other}", "x")
            await #expect(throws: InterlockError.self) { try await fleet.sidecars[0].acquireLock(try LockRequest("other")) }
            try await fleet.cli("LPUSH", "interlock:queue:{third}", "x")
            await #expect(throws: InterlockError.self) { try await fleet.sidecars[0].acquireLock(try LockRequest("third")) }
            #expect(try await fleet.cli("EXISTS", "interlock:lock:{third}").integer == 0)
        }
    }

    @Test(
        "A fence counter that other software set to an invalid value starts over",
        arguments: ["inf", "nan", "1e300", "9223372036854775806", "9223372036854775807", "9007199254740993", "-3", "x"])
    func counterOfOtherSoftware(value: String) async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            // The sidecar learns the Redis clock after a while, and then passes the time to its scripts.
            for hasTime in [false, true] {
                if hasTime {
                    let other = try ResourceName("other")
                    try await eventually(within: .seconds(10), "the sidecar knows the Redis clock") {
                        let lease = try #require(try await sidecar.acquireLock(try LockRequest("other")))
                        _ = try await sidecar.releaseLock(other, token: lease.token)
                        return try await fleet.cli("INFO", "commandstats").text?.contains("cmdstat_incrby") ?? false
                    }
                }
                try await fleet.cli("SET", "interlock:fence:{orders}", value)
                var last: Int64 = 0
                let owned = try LockRequest("owned", owner: "boss")
                for index in 0..<3 {
                    if index == 1 { try await fleet.cli("SET", "interlock:fence:{owned}", value) }
                    let repeatedLease = try #require(try await sidecar.acquireLock(owned))
                    #expect(repeatedLease.fence > 1_600_000_000_000_000 && repeatedLease.fence < 1 << 53)
                    let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
                    #expect(lease.fence > max(last, 1_600_000_000_000_000) && lease.fence < 1 << 53)
                    last = lease.fence
                    #expect(try await sidecar.releaseLock(try ResourceName("orders"), token: lease.token))
                }
            }
        }
    }

    @Test("A holder from other software excludes Interlock and is shown as foreign", arguments: [String?.none, ""])
    func holderOfOtherSoftware(prefix: String?) async throws {
        try await Fleet.run(locks: LockSettings(keyPrefix: prefix)) { fleet in
            let key = prefix == nil ? "interlock:lock:{orders}" : "orders"
            try await fleet.cli("SET", key, "0123456789abcdef", "NX", "PX", "60000")
            #expect(try await fleet.sidecars[0].acquireLock(try LockRequest("orders")) == nil)
            #expect(try await fleet.sidecars[0].inspectLock(try ResourceName("orders"))?.label == "foreign")
            try await fleet.cli("PEXPIRE", key, "100")
            let lease = try #require(try await fleet.sidecars[0].acquireLock(try LockRequest("orders", wait: 20_000)))
            #expect(try await fleet.cli("GET", key).text == lease.token)
            #expect(try await fleet.cli("SET", key, "mine", "NX", "PX", "1000") == .null)
        }
    }

    @Test("A task on the coordinator's loop that calls repeatedly lets others run", .timeLimit(.minutes(1)))
    func repeatedOnTheLoop() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let orders = try ResourceName("orders")
            let holder = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
            async let waiting = sidecar.acquireLock(try LockRequest("orders", wait: 20_000))
            try await eventually(within: .seconds(10), "a caller waits") {
                try await sidecar.inspectLock(orders)?.waiters ?? 0 > 0
            }
            // Callers that do not wait are refused immediately while others wait.
            let polling = Task(executorPreference: sidecar.taskExecutor) {
                while try await sidecar.acquireLock(try LockRequest("orders")) == nil {}
            }
            #expect(try await sidecar.releaseLock(orders, token: holder.token))
            let next = try #require(try await waiting)
            #expect(try await sidecar.releaseLock(orders, token: next.token))
            try await polling.value
        }
    }

    @Test("The list iterates over all locks, filtered by glob")
    func listFiltersByGlob() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            for number in 0..<50 { _ = try await sidecar.acquireLock(try LockRequest("job-\(number)")) }
            _ = try await sidecar.acquireLock(try LockRequest("other"))
            var names: Set<String> = []
            var cursor = "0"
            repeat {
                let page = try await sidecar.listLocks(cursor: cursor, matching: "job-*", count: 10)
                names.formUnion(page.names)
                cursor = page.cursor
            } while cursor != "0"
            #expect(names == Set((0..<50).map { "job-\($0)" }))
        }
    }

    @Test("A ttl outside the limits is rejected", arguments: [Int64(0), -1, 1, 3_600_001])
    func badTTL(ttl: Int64) async throws {
        try await Fleet.run { fleet in
            await #expect(throws: InterlockError.self) {
                try await fleet.sidecars[0].acquireLock(try LockRequest("orders", ttl: ttl))
            }
        }
    }

    @Test("Two hundred callers through two sidecars never hold the lock together, and no one waits forever")
    func manyCallersNeverHoldTogether() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let holders = HolderCount()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for caller in 0..<200 {
                    let sidecar = fleet.sidecars[caller % 2]
                    group.addTask {
                        let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders", wait: 60_000)))
                        holders.enter(fence: lease.fence)
                        await Task.yield()
                        holders.leave()
                        #expect(try await sidecar.releaseLock(name, token: lease.token))
                    }
                }
                try await group.waitForAll()
            }
            #expect(holders.maximum == 1)
            #expect(holders.fencesRose)
        }
    }
}

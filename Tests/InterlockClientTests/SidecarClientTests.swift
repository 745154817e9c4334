import InterlockClient
import InterlockProcesses
import SidecarSettings
import Testing

@Suite("A client of a sidecar", .timeLimit(.minutes(3)))
struct SidecarClientTests {
    @Test("A lock is acquired, inspected, renewed and released")
    func lockLifecycle() async throws {
        try await TestSidecar.withClient { client in
            let lease = try #require(try await client.locks.acquire("orders", ttl: .seconds(30), label: "web-1"))
            #expect(lease.name == "orders")
            #expect(lease.token.hasPrefix("web-1/"))
            #expect(lease.validity > .seconds(25))
            #expect(try await client.locks.acquire("orders", ttl: .seconds(30)) == nil)
            let information = try #require(try await client.locks.information(about: "orders"))
            #expect(information.label == "web-1")
            #expect(information.fence == lease.fence)
            #expect(information.remaining.map { $0 > .seconds(20) } == true)
            let validity = try #require(try await client.locks.renew("orders", token: lease.token, ttl: .seconds(60)))
            #expect(validity > .seconds(50))
            #expect(try await client.locks.renew("orders", token: "other", ttl: .seconds(60)) == nil)
            #expect(try await client.locks.release("orders", token: "other") == false)
            #expect(try await client.locks.release("orders", token: lease.token))
            #expect(try await client.locks.information(about: "orders") == nil)
            #expect(try await client.locks.breakLock("orders") == false)
        }
    }

    @Test("An owner that repeats its request gets the same lease, extended")
    func repeatedRequestGetsSameLease() async throws {
        try await TestSidecar.withClient { client in
            let first = try #require(try await client.locks.acquire("orders", ttl: .seconds(30), owner: "me/1"))
            let second = try #require(try await client.locks.acquire("orders", ttl: .seconds(60), owner: "me/1"))
            #expect(first.token == "me/1")
            #expect(second.fence == first.fence)
            #expect(second.validity > .seconds(50))
        }
    }

    @Test("Several locks are acquired together or not at all, and listed")
    func several() async throws {
        try await TestSidecar.withClient { client in
            let leases = try #require(try await client.locks.acquire(all: ["b", "a", "c"], ttl: .seconds(30)))
            #expect(leases.map(\.name) == ["b", "a", "c"])
            #expect(try await client.locks.acquire(all: ["d", "c"], ttl: .seconds(30)) == nil)
            let (names, isComplete) = try await client.locks.names()
            #expect(names.sorted() == ["a", "b", "c"])
            #expect(isComplete)
            #expect(try await client.locks.names(limit: 2).isComplete == false)
            #expect(try await client.locks.information(about: names + ["z"]).map(\.name) == ["a", "b", "c"])
        }
    }

    @Test("Readers share a lock, and a semaphore grants as many leases as it has slots")
    func readersShareLock() async throws {
        try await TestSidecar.withClient { client in
            let reader = try await client.locks.acquire("book", ttl: .seconds(30), mode: .shared)
            #expect(reader != nil)
            #expect(try await client.locks.acquire("book", ttl: .seconds(30), mode: .shared) != nil)
            #expect(try await client.locks.acquire("book", ttl: .seconds(30)) == nil)
            #expect(try await client.locks.acquire("seats", ttl: .seconds(30), mode: .permits(1)) != nil)
            #expect(try await client.locks.acquire("seats", ttl: .seconds(30), mode: .permits(1)) == nil)
        }
    }

    @Test("A waiting call does not delay other calls, and gets the lock when it is released")
    func waitingCallDelaysNoOtherCall() async throws {
        try await TestSidecar.withClient { client in
            let first = try #require(try await client.locks.acquire("orders", ttl: .seconds(60)))
            async let second = client.locks.acquire("orders", ttl: .seconds(60), wait: .seconds(20))
            try await eventually("the second call waits") { try await client.locks.information(about: "orders")?.waiters == 1 }
            #expect(try await client.locks.release("orders", token: first.token))
            #expect(try await second?.fence ?? 0 > first.fence)
        }
    }

    @Test("A cancelled wait leaves no waiter and no lease")
    func cancelledWaitLeavesNoWaiterAndNoLease() async throws {
        try await TestSidecar.withClient { client in
            let first = try #require(try await client.locks.acquire("orders", ttl: .seconds(60)))
            let waiting = Task { try await client.locks.acquire("orders", ttl: .seconds(60), wait: .seconds(20)) }
            try await eventually("the call waits") { try await client.locks.information(about: "orders")?.waiters == 1 }
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
            try await eventually("no call waits") { try await client.locks.information(about: "orders")?.waiters == 0 }
            #expect(try await client.locks.release("orders", token: first.token))
            #expect(try await client.locks.information(about: "orders") == nil)
        }
    }

    @Test("Many calls share one connection")
    func manyCallsShareOneConnection() async throws {
        try await TestSidecar.withClient { client in
            let granted = try await withThrowingTaskGroup(of: Bool.self) { group in
                for _ in 0..<500 { group.addTask { try await client.limits.take(from: "catalog").isAllowed } }
                return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(granted == 10)
            #expect(try await client.status().connections == 1)
        }
    }

    @Test("A limit reports the remaining calls and the retry time")
    func limitReportsRemainingCallsAndRetryTime() async throws {
        try await TestSidecar.withClient { client in
            let decision = try await client.limits.take(from: "catalog", cost: 4)
            #expect(decision.isAllowed)
            #expect(decision.remaining == 6)
            #expect(decision.retryAfter == nil)
            #expect(try await client.limits.peek(at: "catalog").remaining == 6)
            let refusal = try await client.limits.take(from: "catalog", cost: 7)
            #expect(!refusal.isAllowed)
            #expect(refusal.retryAfter.map { $0 > .zero } == true)
        }
    }

    @Test("A permit can be reported only once, and a forced breaker refuses the next call")
    func permitCanBeReportedOnlyOnce() async throws {
        try await TestSidecar.withClient { client in
            let request = PermitCalls.Acquire(UpstreamCallRequest(service: "catalog"))
            let permit = try await client.send(request).get()
            #expect(permit.state == .closed)
            let ok = OutcomeReport(outcome: .ok, latency: .milliseconds(5), status: 200)
            let report = PermitCalls.Report(service: "catalog", permit: permit.id, ok)
            #expect(try await client.send(report) == .closed)
            let error = await #expect(throws: InterlockError.self) { try await client.send(report) }
            #expect(error?.code == .invalid)
            try await client.breakers.force("catalog", to: .open, for: .seconds(60), reason: "moving")
            let refusal = await #expect(throws: ServiceCallError.self) { try await client.services.call("catalog") {} }
            #expect(refusal?.code == .open)
            let breaker = try await client.breakers.status(of: "catalog")
            #expect(breaker.fleet.forced == .open)
            #expect(breaker.fleet.reason == "moving")
            #expect(breaker.fleet.forcedUntil != nil)
            #expect(try await client.breakers.all() == [breaker])
            try await client.breakers.force("catalog", to: nil)
            #expect(try await client.breakers.status(of: "catalog").fleet.forced == nil)
        }
    }

    @Test("A guarded call is always reported, even if it throws or the report has numbers out of range")
    func guardedCalls() async throws {
        struct CallError: Error {}
        // One slot: a permit that is not reported would refuse the next call.
        try await TestSidecar.withClient(services: [ServiceDefinition(name: "catalog", concurrency: 1)]) { client in
            let first = try await client.services.call("catalog") { 7 }
            await #expect(throws: CallError.self) { try await client.services.call("catalog") { throw CallError() } }
            let outOfRange = OutcomeReport(outcome: .error, latency: .seconds(-1), status: 0, retryAfter: .seconds(-5))
            let second = try await client.services.call("catalog", judgedBy: { _ in outOfRange }) { 8 }
            let third = try await client.services.call("catalog") { 9 }
            #expect([first, second, third] == [7, 8, 9])
            let unknown = await #expect(throws: ServiceCallError.self) { try await client.services.call("nosuch") {} }
            #expect(unknown?.code == .unknownService)
            #expect(unknown?.state == nil)
        }
    }

    @Test("The status names the sidecar, its Redis and its event channel")
    func statusNamesSidecarAndRedis() async throws {
        try await TestSidecar.withClient(prefix: "shop:") { client in
            let status = try await client.status()
            #expect(status.host == "test")
            #expect(status.redis.isUp)
            #expect(status.redis.failure == nil)
            #expect(status.eventChannel == "shop:events")
        }
    }

    @Test("Events come from the channel that the sidecar names")
    func eventsComeFromChannelThatSidecarNames() async throws {
        try await TestSidecar.withClient(prefix: "shop:") { client in
            let events = client.events.breakers.subscribe()
            var connection = client.events.connection.makeAsyncIterator()
            #expect(await connection.next() == .following)
            try await client.breakers.force("catalog", to: .open)
            #expect(await events.first { _ in true }?.service == "catalog")
            var configuration = client.configuration
            configuration.eventChannel = "other:events"
            try await SidecarClient.withClient(configuration) { other in
                var connection = other.events.connection.makeAsyncIterator()
                let error: InterlockError? = if case .interrupted(let error) = await connection.next() { error } else { nil }
                #expect(error?.code == .invalid)
            }
        }
    }

    @Test("An error has the sidecar's message, without the code")
    func errorHasSidecarMessage() async throws {
        try await TestSidecar.withClient { client in
            let error = await #expect(throws: InterlockError.self) { try await client.limits.take(from: "nothing") }
            #expect(error?.code == .unknownService)
            #expect(error?.isFromSidecar == true)
            #expect(error?.message.contains("nothing") == true)
            #expect(error?.message.hasPrefix("UNKNOWN") == false)
        }
    }

    @Test("The API key determines which calls a client may make")
    func apiKeyDeterminesAllowedCalls() async throws {
        let keys = [
            APIKey(name: "web", secret: "web-secret-of-16", role: .use),
            APIKey(name: "ops", secret: "ops-secret-of-16", role: .admin),
        ]
        try await TestSidecar.with(keys: keys) { sidecar in
            func code(_ key: String?, _ call: (SidecarClient) async throws -> Void) async -> InterlockError.Code? {
                var configuration = sidecar.configuration
                configuration.apiKey = key
                do {
                    try await SidecarClient.withClient(configuration, call)
                    return nil
                } catch {
                    return (error as? InterlockError)?.code
                }
            }
            #expect(await code(nil) { _ = try await $0.locks.breakLock("orders") } == .missingAPIKey)
            #expect(await code("no-key-of-theirs") { _ = try await $0.locks.breakLock("orders") } == .invalidAPIKey)
            #expect(await code("web-secret-of-16") { _ = try await $0.locks.breakLock("orders") } == .permissionDenied)
            #expect(await code("ops-secret-of-16") { _ = try await $0.locks.breakLock("orders") } == nil)
        }
    }

    @Test("A closed client refuses calls")
    func closedClientRefusesCalls() async throws {
        try await TestSidecar.with { sidecar in
            let client = SidecarClient(sidecar.configuration)
            _ = try await client.status()
            await client.close()
            let error = await #expect(throws: InterlockError.self) { try await client.status() }
            #expect(error?.code == .notConnected)
        }
    }

    @Test("A client that runs as a service closes when its task is cancelled")
    func cancelledServiceClosesClient() async throws {
        try await TestSidecar.with { sidecar in
            let client = SidecarClient(sidecar.configuration)
            let service = Task { try await client.run() }
            _ = try await client.status()
            service.cancel()
            try await service.value
            let error = await #expect(throws: InterlockError.self) { try await client.status() }
            #expect(error?.code == .notConnected)
        }
    }
}

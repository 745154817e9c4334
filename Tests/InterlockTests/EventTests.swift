import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOPosix
import RedisClient
import Testing

@Suite("Events on a real Redis server", .timeLimit(.minutes(2)))
struct EventTests {
    private static let perMinute = ServiceDefinition(
        name: "catalog", limits: [LimitDefinition(name: "1m", limit: 10, window: .seconds(60))])

    private static func message(_ number: Int, database: Int = 0, type: String = "lock.broken") -> String {
        #"{"v":1,"type":"\#(type)","origin":"test","db":\#(database),"at_ms":1,"lock":"\#(number)","by":"ops"}"#
    }

    // MARK: Delivery

    @Test("A breaker's change reaches the other sidecars as its own type, with its origin and Redis's time")
    func breakerChangeHasItsOwnEventType() async throws {
        try await Fleet.run(of: 2, services: [Self.perMinute]) { fleet in
            var events = fleet.sidecars[1].events.breakers.makeAsyncIterator()
            _ = try await fleet.sidecars[0].forceBreaker(service: "catalog", to: .open, by: "ops")
            let event = try #require(await events.next())
            #expect(event.origin == fleet.sidecars[0].id)
            #expect(event.database == 0)
            #expect(event.service == "catalog")
            #expect(event.breaker.forced == .open)
            #expect(event.atMilliseconds == event.breaker.sinceMilliseconds)
        }
    }

    @Test("A broken lock reaches the other sidecars as its own type, with its origin")
    func brokenLockHasItsOwnEventType() async throws {
        try await Fleet.run(of: 2) { fleet in
            var events = fleet.sidecars[1].events.locks.makeAsyncIterator()
            _ = try await fleet.sidecars[0].acquireLock(try LockRequest("orders"))
            _ = try await fleet.sidecars[0].breakLock(try ResourceName("orders"), by: "ops")
            let event = try #require(await events.next())
            #expect(event.origin == fleet.sidecars[0].id)
            #expect(event.payload == LockEvent(kind: .broken, lock: "orders", brokenBy: "ops"))
        }
    }

    @Test("A sidecar that joins or leaves is reported as its own type")
    func fleet() async throws {
        try await Fleet.run { fleet in
            let events = fleet.sidecars[0].events.fleet.subscribe()
            let other = Coordinator(
                configuration: InterlockConfiguration(redis: fleet.server.configuration),
                eventLoop: fleet.sidecars[0].eventLoop, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            await other.start()
            await other.waitUntilReady()
            // The sidecar's event about its own joining may arrive late.
            let joined = await events.first { $0.sidecar == other.id }
            #expect(joined?.kind == .joined)
            #expect(joined?.origin == other.id)
            await other.stop()
            let leaveEvent = await events.first { $0.sidecar == other.id }
            #expect(leaveEvent?.kind == .left)
        }
    }

    @Test("A limit that is nearly used up and then reached is reported to the whole fleet, each once, with its origin")
    func limits() async throws {
        try await Fleet.run(of: 2, services: [Self.perMinute]) { fleet in
            var kinds: [LimitEvent.Kind] = []
            let local = fleet.sidecars[0].events.limits.subscribe()
            var remote = fleet.sidecars[1].events.limits.makeAsyncIterator()
            var later = fleet.sidecars[0].events.breakers.makeAsyncIterator()
            for _ in 0..<20 { _ = try await fleet.sidecars[0].take(service: "catalog") }
            while kinds.count < 2, let event = await remote.next() {
                #expect(event.origin == fleet.sidecars[0].id)
                #expect(event.service == "catalog")
                #expect(event.limitName == "1m")
                #expect(event.limit == 10)
                kinds.append(event.kind)
            }
            #expect(kinds == [.near, .reached])
            // Local events are delivered on publication, and not again when they return over the channel.
            _ = try await fleet.sidecars[0].forceBreaker(service: "catalog", to: .open, by: "ops")
            _ = await later.next()
            local.cancel()
            var localKinds: [LimitEvent.Kind] = []
            for await event in local { localKinds.append(event.kind) }
            #expect(localKinds == [.near, .reached])
        }
    }

    @Test("While Redis is unreachable a sidecar reports limits to its own subscribers")
    func withoutRedis() async throws {
        try await Fleet.run(services: [Self.perMinute]) { fleet in
            let sidecar = fleet.sidecars[0]
            await fleet.server.kill()
            try await eventually(within: .seconds(10), "the sidecar has noticed that Redis is down") {
                await !sidecar.status.isRedisUp
            }
            var events = sidecar.events.limits.makeAsyncIterator()
            let reader = Task { await events.next() }
            for _ in 0..<20 { _ = try await sidecar.take(service: "catalog") }
            let event = try #require(await reader.value)
            #expect(event.origin == sidecar.id)
            #expect(event.service == "catalog")
            #expect(event.atMilliseconds > 1_600_000_000_000)
        }
    }

    @Test("Malformed events and those of another version or database are skipped, and later ones are delivered")
    func skipped() async throws {
        try await Fleet.run { fleet in
            var locks = fleet.sidecars[0].events.locks.makeAsyncIterator()
            let all = fleet.sidecars[0].events.json.subscribe()
            let channel = fleet.sidecars[0].keys.events
            try await fleet.cli("PUBLISH", channel, "nonsense")
            try await fleet.cli("PUBLISH", channel, #"{"v":9}"#)
            try await fleet.cli("PUBLISH", channel, Self.message(1, database: 7))
            try await fleet.cli("PUBLISH", channel, Self.message(2, type: "lock.painted"))
            try await fleet.cli("PUBLISH", channel, Self.message(3))
            #expect(await locks.next()?.lock == "3")
            // Event types of newer versions are passed on unchanged.
            let unknown = await all.first { $0.type.hasPrefix("lock.") }
            #expect(unknown?.json == Self.message(2, type: "lock.painted"))
            let lockEvent = await all.first { $0.type.hasPrefix("lock.") }
            #expect(lockEvent?.json == Self.message(3))
        }
    }

    // MARK: Subscriptions

    @Test("A subscription receives all events since its creation, even if it is first read later")
    func fromTheBeginning() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            var early = sidecar.events.locks.makeAsyncIterator()
            try await Self.publish(1...3, in: fleet)
            #expect(await early.next()?.lock == "1")
            #expect(await early.next()?.lock == "2")
            #expect(await early.next()?.lock == "3")
        }
    }

    @Test("A subscriber that is too slow loses the oldest events, learns how many, and does not delay other subscribers")
    func tooSlow() async throws {
        try await Fleet.run { fleet in
            let slow = fleet.sidecars[0].events.locks.subscribe(capacity: 4)
            try await Self.publish(1...10, in: fleet)
            try await eventually("the last event has arrived") { slow.dropped == 6 }
            slow.cancel()
            var received: [String] = []
            for await event in slow { received.append(event.lock) }
            #expect(received == ["7", "8", "9", "10"])
        }
    }

    @Test("Capacities outside the limits are clamped", arguments: [(-1, 1), (0, 1), (70_000, 65_536)])
    func capacitiesOutsideLimitsAreClamped(requested: Int, expected: Int) async throws {
        let coordinator = Self.unstarted()
        #expect(coordinator.events.json.subscribe(capacity: requested).capacity == expected)
    }

    @Test("Leaving a loop ends its subscription")
    func leftLoop() async throws {
        try await Fleet.run { fleet in
            let events = fleet.sidecars[0].events
            let reader = Task {
                for await _ in events.locks { break }
            }
            try await eventually("a subscriber is registered") { events.subscriptionCount == 1 }
            try await fleet.cli("PUBLISH", fleet.sidecars[0].keys.events, Self.message(1))
            await reader.value
            #expect(events.subscriptionCount == 0)
        }
    }

    @Test("A subscription that is not retained has ended")
    func subscriptionThatIsNotRetainedHasEnded() async throws {
        let coordinator = Self.unstarted()
        do {
            let subscription = coordinator.events.limits.subscribe()
            #expect(coordinator.events.subscriptionCount == 1)
            _ = subscription.makeAsyncIterator()
        }
        #expect(coordinator.events.subscriptionCount == 0)
    }

    @Test("Cancelling a task that waits for an event ends its subscription")
    func cancelledTask() async throws {
        let coordinator = Self.unstarted()
        let subscription = coordinator.events.breakers.subscribe()
        let reader = Task {
            for await _ in subscription {}
        }
        reader.cancel()
        await reader.value
        // The subscription ends although it is still referenced.
        #expect(coordinator.events.subscriptionCount == 0)
        #expect(subscription.dropped == 0)
    }

    @Test("Every subscription ends when the coordinator stops, and a later one ends immediately")
    func stopEndsEverySubscription() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let subscription = sidecar.events.breakers.subscribe()
            async let events: Void = { for await _ in subscription {} }()
            await sidecar.stop()
            await events
            for await _ in sidecar.events.breakers { Issue.record("a stopped coordinator sent an event") }
            #expect(sidecar.events.subscriptionCount == 0)
        }
    }

    @Test("A subscription does not retain its coordinator, and ends with it")
    func coordinatorDropped() async throws {
        let subscription = Self.unstarted().events.breakers.subscribe()
        for await _ in subscription { Issue.record("a released coordinator sent an event") }
    }

    /// Returns a coordinator that is never started.
    private static func unstarted() -> Coordinator {
        Coordinator(
            configuration: InterlockConfiguration(redis: .init(address: .unixSocket(path: "/nowhere"))),
            eventLoop: MultiThreadedEventLoopGroup.singleton.next())
    }

    /// Publishes messages. Returns once the first sidecar has delivered all of them to its subscribers.
    private static func publish(_ numbers: ClosedRange<Int>, in fleet: Fleet) async throws {
        let delivered = fleet.sidecars[0].events.locks.subscribe()
        for number in numbers { try await fleet.cli("PUBLISH", fleet.sidecars[0].keys.events, message(number)) }
        for await event in delivered where event.lock == "\(numbers.upperBound)" { break }
    }
}

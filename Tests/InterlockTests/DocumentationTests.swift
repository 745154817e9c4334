import FoundationEssentials
import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import RedisClient
import ServiceLifecycle
import Testing

@Suite("The documented examples", .timeLimit(.minutes(2)))
struct DocumentationTests {
    // MARK: Text

    @Test(
        "Every block of Swift in an article compiles, and every compiled block is in its article",
        arguments: [
            ("Sources/Interlock/Interlock.docc/HoldingLocks.md", "InterlockTests/DocumentedExamples.swift", 11),
            ("docs/swift/guarded-calls.md", "InterlockTests/DocumentedServiceExamples.swift", 3),
            ("docs/swift/README.md", "InterlockTests/DocumentedLibraryExamples.swift", 2),
            ("docs/swift/client.md", "InterlockClientTests/DocumentedClientExamples.swift", 4),
        ])
    func everySwiftBlockCompiles(article: String, examples: String, minimum: Int) throws {
        let hello = try Self.helloText()
        let documented = try Self.blocks(inFile: article, from: "```swift", to: "```").filter {
            $0 != hello && !$0.hasPrefix(".package")
        }
        let compiled = try Self.blocks(inFile: "Tests/\(examples)", from: "// snippet: ", to: "// end")
        #expect(documented.count >= minimum)
        for block in documented where !compiled.contains(block) { Issue.record("not in \(examples):\n\(block)") }
        for block in compiled where !documented.contains(block) { Issue.record("not in \(article):\n\(block)") }
    }

    @Test("The landing page and the article contain no other Swift", arguments: ["Interlock.md", "HoldingLocks.md"])
    func onlySwift(page: String) throws {
        let article = try Self.text(ofFile: "Sources/Interlock/Interlock.docc/\(page)")
        let fences = article.split(separator: "\n").filter { $0.hasPrefix("```") && $0 != "```" }
        let languages = Set(fences.map { $0.dropFirst(3) })
        let expected: Set<Substring> = page == "HoldingLocks.md" ? ["swift", "sql"] : []
        #expect(languages.isSubset(of: expected))
    }

    @Test("The Swift guide begins with the first example")
    func helloOnPage() throws {
        let documented = try Self.blocks(inFile: "docs/swift/README.md", from: "```swift", to: "```")
        #expect(documented.first == (try Self.helloText()))
    }

    /// Returns the body of `hello` as the guide shows it, with its import and an example URL.
    private static func helloText() throws -> String {
        let body = try #require(
            try blocks(inFile: "Tests/InterlockTests/HelloExample.swift", from: "// snippet: ", to: "// end").first)
        return "import Interlock\n\n" + body.replacing("redis: redis", with: "redis: \"redis://127.0.0.1:6379\"")
    }

    // MARK: Behavior

    @Test("The first example holds its lock and releases it")
    func helloRuns() async throws {
        try await Fleet.run { fleet in
            try await hello(redis: "unix://\(fleet.server.socketPath)")
            let fence = try await fleet.cli("GET", "interlock:fence:{nightly-report}").text
            #expect(fence != nil)
            let isHeld = try await fleet.cli("EXISTS", "interlock:lock:{nightly-report}").integer
            #expect(isHeld == 0)
        }
    }

    @Test("If Redis is still unreachable after five seconds, `withCoordinator` runs its body anyway")
    func redisUnreachable() async throws {
        // No Redis listens at this path.
        let code = try await withCoordinator(redis: "unix:///nonexistent/redis.sock") { coordinator in
            let isReady = await coordinator.isReady
            #expect(!isReady)
            let error = await #expect(throws: InterlockError.self) { _ = try await coordinator.locks.acquire("orders") }
            return error?.code
        }
        #expect(code == .unavailable)
    }

    @Test("Locks, limits, guarded calls and a group need only one import")
    func library() async throws {
        let (_, group) = try DocumentedLibraryExamples.makeGroup()
        _ = group
        let limit = LimitDefinition(name: "tenant", limit: 1, window: .seconds(600), isPerSubject: true)
        try await Fleet.run(services: [ServiceDefinition(name: "catalog", limits: [limit])]) { fleet in
            let sidecar = fleet.sidecars[0]
            let sum = try await DocumentedLibraryExamples.hold(sidecar, order: 7) { order, fence in
                fence > 0 ? order : 0
            }
            #expect(sum == 7)
            let first = try await DocumentedLibraryExamples.take(sidecar)
            #expect(first?.isAllowed == true && first?.limitName == "tenant" && first?.remaining == 0)
            let second = try await DocumentedLibraryExamples.take(sidecar)
            #expect(second == nil)
            await #expect(throws: ServiceCallError.self) {
                try await DocumentedLibraryExamples.call(sidecar) { _ in [] }
            }
        }
    }

    @Test("Guarded calls and ordered work return their values or the reason for failing")
    func services() async throws {
        let examples = DocumentedServiceExamples()
        try await Fleet.run(services: [PermitTests.service(slots: 4, limits: [])]) { fleet in
            let sidecar = fleet.sidecars[0]
            let called = try await examples.call(sidecar)
            let judged = try await examples.judged(sidecar)
            #expect(called.map(\.number) == [1] && judged.map(\.number) == [1])
            let ordered = try await examples.ordered(sidecar)
            #expect(ordered.map(\.number) == [1, 2, 3])
            let states = try await sidecar.services.withWork { try await examples.observed($0) }
            #expect(states.last == .finished(.success))
            let allowed = try await examples.refused(sidecar)
            #expect(allowed != nil)
            _ = try await sidecar.forceBreaker(service: "catalog", to: .open, by: "test")
            let refusal = try await examples.refused(sidecar)
            #expect(refusal == nil)
        }
    }

    @Test("A lock is held while its body runs and free afterwards")
    func lockIsHeldWhileBodyRuns() async throws {
        try await Fleet.run { fleet in
            let store = OrderStore()
            let first = try await DocumentedExamples.hold(fleet.sidecars[0], store: store)
            let second = try await DocumentedExamples.hold(fleet.sidecars[0], store: store)
            #expect(second > first)
            let state = await store.state(of: 7)
            #expect(state == "packed")
        }
    }

    @Test("A store that remembers fences rejects writes with lower ones")
    func fencedWrite() async throws {
        let store = OrderStore()
        try await store.write("packed", to: 7, fence: 34)
        await #expect(throws: OutdatedFence.self) { try await store.write("cancelled", to: 7, fence: 33) }
        try await store.write("sent", to: 7, fence: 34)
        let state = await store.state(of: 7)
        #expect(state == "sent")
    }

    @Test("Errors are distinguished by their codes")
    func errorsAreDistinguishedByCodes() async throws {
        try await Fleet.run(of: 2) { fleet in
            let name = try ResourceName("orders")
            let cashier = Cashier(coordinator: fleet.sidecars[0], store: OrderStore())
            let paid = try await cashier.pay(7)
            #expect(paid == "paid")

            let other = try #require(try await fleet.sidecars[1].acquireLock(try LockRequest("orders")))
            let refusal = try await cashier.pay(8)
            #expect(refusal == "another worker holds the lock: try again later")
            let isReleased = try await fleet.sidecars[1].releaseLock(name, token: other.token)
            #expect(isReleased)

            let caller = Task {
                withUnsafeCurrentTask { $0?.cancel() }
                return try await cashier.pay(9)
            }
            await #expect(throws: CancellationError.self) { try await caller.value }
        }
    }

    @Test("A cancelled wait ends and leaves nothing behind")
    func cancelledWaitEndsAndLeavesNothingBehind() async throws {
        try await Fleet.run { fleet in
            let name = try ResourceName("orders")
            let sidecar = fleet.sidecars[0]
            let lease = try #require(try await sidecar.acquireLock(try LockRequest("orders")))
            let result = await DocumentedExamples.giveUp(sidecar)
            #expect(throws: CancellationError.self) { try result.get() }
            let isReleased = try await sidecar.releaseLock(name, token: lease.token)
            #expect(isReleased)
            try await eventually("the lock is free") { try await sidecar.inspectLock(name) == nil }
        }
    }

    @Test("A semaphore's slot and a reader's lease are released like any other")
    func sharing() async throws {
        try await Fleet.run { fleet in
            let sidecar = fleet.sidecars[0]
            let total = try await DocumentedExamples.share(
                sidecar,
                render: {
                    let information = try await sidecar.inspectLock(try ResourceName("thumbnails"))
                    #expect(information?.label == "permits-4")
                },
                prices: {
                    let information = try await sidecar.inspectLock(try ResourceName("prices"))
                    #expect(information?.label == "shared")
                    return [1, 2, 3]
                })
            #expect(total == 6)
            for name in ["thumbnails", "prices"] {
                let information = try await sidecar.inspectLock(try ResourceName(name))
                #expect(information == nil, "\(name)")
            }
        }
    }

    @Test("Several locks are acquired together and released one by one")
    func several() async throws {
        try await Fleet.run { fleet in
            let fences = try await DocumentedExamples.several(fleet.sidecars[0])
            #expect(fences?.count == 2)
            let keys = try await fleet.cli("KEYS", "interlock:lock:*").array
            #expect(keys?.isEmpty == true)
        }
    }

    @Test("A follower of a lease is notified when the lock is broken")
    func followerIsNotifiedOfBrokenLock() async throws {
        try await Fleet.run(of: 2) { fleet in
            let sidecar = fleet.sidecars[0]
            async let loss = DocumentedExamples.follow(sidecar)
            try await fleet.server.waitUntilTracking(1)
            let isBroken = try await fleet.sidecars[1].breakLock(try ResourceName("orders"), by: "test")
            #expect(isBroken)
            let reason = try await loss
            #expect(reason == .broken)
        }
    }

    @Test("A service in a group holds its lock until the group shuts down, and leaves nothing behind")
    func serviceHoldsLockUntilShutdown() async throws {
        try await Fleet.run { fleet in
            let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            let coordinator = Coordinator(
                configuration: InterlockConfiguration(redis: fleet.server.configuration, host: "test"),
                eventLoop: fleet.sidecars[0].eventLoop, logger: logger)
            let group = ServiceGroup(services: [coordinator, Sweeper(coordinator: coordinator)], logger: logger)
            let running = Task { try await group.run() }
            defer { running.cancel() }
            try await eventually("the service holds its lock") {
                try await fleet.cli("EXISTS", "interlock:lock:{sweeper}").integer == 1
            }
            await group.triggerGracefulShutdown()
            try await running.value
            let isHeld = try await fleet.cli("EXISTS", "interlock:lock:{sweeper}").integer
            #expect(isHeld == 0)
        }
    }

    @Test("A caller on the coordinator's executor acquires and releases locks, and the coordinator stops afterwards")
    func onExecutor() async throws {
        try await Fleet.run { fleet in
            let coordinator = Coordinator(
                configuration: InterlockConfiguration(redis: fleet.server.configuration, host: "test"),
                eventLoop: fleet.sidecars[0].eventLoop, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            try await DocumentedExamples.runLifecycle(of: coordinator) {
                let count = try await DocumentedExamples.runOnExecutor(coordinator)
                #expect(count == 100)
            }
            let isReady = await coordinator.isReady
            #expect(!isReady)
        }
    }
}

extension DocumentationTests {
    static func text(ofFile path: String) throws -> String {
        let project = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
        return String(decoding: try Data(contentsOf: URL(filePath: "\(project)/\(path)")), as: UTF8.self)
    }

    /// Returns the blocks between a line that begins with `start` and the next line that is `end`, without indentation.
    private static func blocks(inFile path: String, from start: String, to end: String) throws -> [String] {
        var blocks: [String] = []
        var block: [Substring]?
        for line in try text(ofFile: path).split(separator: "\n", omittingEmptySubsequences: false) {
            let words = line.drop { $0 == " " }
            if let lines = block {
                if words == end {
                    blocks.append(unindented(lines))
                    block = nil
                } else {
                    block = lines + [line]
                }
            } else if words.hasPrefix(start) {
                block = []
            }
        }
        return blocks
    }

    private static func unindented(_ lines: [Substring]) -> String {
        let margin = lines.filter { !$0.isEmpty }.map { $0.prefix { $0 == " " }.count }.min() ?? 0
        return lines.map { $0.dropFirst(margin) }.joined(separator: "\n")
    }
}

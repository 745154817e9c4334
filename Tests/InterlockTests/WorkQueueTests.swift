import Interlock
import InterlockCore
import InterlockProcesses
import Logging
import NIOConcurrencyHelpers
import NIOPosix
import RedisClient
import ServiceLifecycle
import Testing

@Suite("Ordered work", .timeLimit(.minutes(2)))
struct WorkQueueTests {
    private struct TestError: Error {}

    /// Returns services without a reachable Redis, which unguarded work does not need.
    private static func services() -> Services {
        Coordinator(
            configuration: InterlockConfiguration(redis: .init(address: .host("127.0.0.1", port: 1))),
            eventLoop: MultiThreadedEventLoopGroup.singleton.next(),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        ).services
    }

    /// Records events in order.
    private final class Journal: Sendable {
        private let entries = NIOLockedValueBox<[String]>([])
        func note(_ entry: String) { entries.withLockedValue { $0.append(entry) } }
        var all: [String] { entries.withLockedValue { $0 } }
    }

    /// Blocks operations until it is opened or they are cancelled.
    private struct Gate: Sendable {
        private let stream: AsyncStream<Void>
        private let continuation: AsyncStream<Void>.Continuation
        init() { (stream, continuation) = AsyncStream.makeStream(of: Void.self) }
        func open() { continuation.finish() }
        /// Waits for the gate to open. Supports only one operation.
        func pass() async throws {
            for await _ in stream {}
            try Task.checkCancellation()
        }
    }

    private static func waitUntilExecuting(_ item: WorkItem<some Sendable>) async throws {
        try await eventually("\(item.name) is executing") { item.state == .executing }
    }

    /// Returns the error of work that must fail.
    private static func failure(_ item: WorkItem<some Sendable>) async throws -> WorkError {
        let error = await #expect(throws: WorkError.self) { _ = try await item.value }
        return try #require(error)
    }

    /// Records an issue, because the operation must not run.
    private static func unexpectedStart() {
        Issue.record("it was started")
    }

    // MARK: Order

    @Test("Work starts after its dependencies, whose values it can use immediately")
    func loginThenFetch() async throws {
        let journal = Journal()
        let pages = try await Self.services().withWork { work in
            let login = try work.add("login") {
                journal.note("login")
                return "token"
            }
            let fetches = try (1...3).map { page in
                try work.add("fetch \(page)", after: [login]) {
                    let token = try await login.value
                    journal.note("fetch")
                    return "\(token) \(page)"
                }
            }
            var pages: [String] = []
            for fetch in fetches { pages.append(try await fetch.value) }
            return pages
        }
        #expect(pages == ["token 1", "token 2", "token 3"])
        #expect(journal.all == ["login", "fetch", "fetch", "fetch"])
    }

    @Test("No more operations run at a time than allowed, and the next starts when one ends")
    func concurrentOperationsAreLimited() async throws {
        try await Self.services().withWork(maximumExecuting: 2) { work in
            let gates = (0..<4).map { _ in Gate() }
            let items = try gates.enumerated().map { index, gate in
                try work.add("\(index)") { try await gate.pass() }
            }
            try await Self.waitUntilExecuting(items[0])
            try await Self.waitUntilExecuting(items[1])
            #expect(items.map(\.state) == [.executing, .executing, .ready, .ready])
            gates[1].open()
            try await Self.waitUntilExecuting(items[2])
            #expect(items.map(\.state) == [.executing, .finished(.success), .executing, .ready])
            for gate in gates { gate.open() }
        }
    }

    @Test("Several observers can follow the states of a work item: waiting, ready, executing, finished")
    func observersFollowStatesOfWorkItem() async throws {
        try await Self.services().withWork { work in
            let first = Gate()
            let second = Gate()
            let login = try work.add("login") { try await first.pass() }
            let fetch = try work.add("fetch", after: [login]) { try await second.pass() }
            let observers = (0..<2).map { _ in
                Task {
                    var states: [WorkState] = []
                    for await state in fetch.states { states.append(state) }
                    return states
                }
            }
            #expect(fetch.state == .waiting)
            first.open()
            try await Self.waitUntilExecuting(fetch)
            second.open()
            for observer in observers {
                let states = await observer.value
                #expect(states.last == .finished(.success))
                let order: [WorkState] = [.waiting, .ready, .executing, .finished(.success)]
                // A slow observer misses some states, but sees none twice or out of order.
                #expect(states == order.filter { states.contains($0) })
            }
            var late: [WorkState] = []
            for await state in fetch.states { late.append(state) }
            #expect(late == [.finished(.success)])
        }
    }

    // MARK: Failure

    @Test("A failure is thrown to those that wait for it, and cancels dependent work with an error that names the failed item")
    func failurePropagates() async throws {
        try await Self.services().withWork { work in
            let gate = Gate()
            let login = try work.add("login") {
                try await gate.pass()
                throw TestError()
            }
            let fetch = try work.add("fetch", after: [login]) { Self.unexpectedStart() }
            let store = try work.add("store", after: [fetch]) { Self.unexpectedStart() }
            let other = try work.add("other") { 7 }
            gate.open()
            await #expect(throws: TestError.self) { try await login.value }
            let fetchError = try await Self.failure(fetch)
            #expect(fetchError.code == .dependency && fetchError.dependency == "login")
            #expect(fetchError.underlying is TestError)
            let storeError = try await Self.failure(store)
            #expect(storeError.code == .dependency && storeError.dependency == "fetch")
            #expect([login.state, fetch.state, store.state] == [.finished(.failure), .cancelled, .cancelled])
            let value = try await other.value
            #expect(value == 7)
            let late = try work.add("late", after: [login]) { Self.unexpectedStart() }
            let lateError = try await Self.failure(late)
            #expect(lateError.code == .dependency && lateError.dependency == "login")
        }
    }

    @Test("A refused call fails its service's work, and unguarded work continues")
    func refusedCall() async throws {
        try await Fleet.run(services: [PermitTests.service(slots: 1)]) { fleet in
            let sidecar = fleet.sidecars[0]
            let value = try await sidecar.services.withWork { work in
                try await work.add("catalog", service: "catalog") { 1 }.value
            }
            #expect(value == 1)
            _ = try await sidecar.forceBreaker(service: "catalog", to: .open, by: "test")
            try await sidecar.services.withWork { work in
                let call = try work.add("catalog", service: "catalog") { Issue.record("it was made") }
                let error = await #expect(throws: ServiceCallError.self) { try await call.value }
                #expect(error?.code == .open)
                #expect(call.state == .finished(.failure))
            }
        }
    }

    @Test("Work waits for its permit as ready, and executes when its operation starts")
    func readyUntilPermitted() async throws {
        try await Fleet.run(services: [PermitTests.service(slots: 1)]) { fleet in
            try await fleet.sidecars[0].services.withWork { work in
                let gate = Gate()
                let first = try work.add("first", service: "catalog") { try await gate.pass() }
                try await Self.waitUntilExecuting(first)
                let second = try work.add("second", service: "catalog", wait: .seconds(50)) {}
                try await PermitTests.waitUntilWaiting(1, in: fleet.sidecars[0])
                #expect(second.state == .ready)
                gate.open()
                try await second.value
            }
        }
    }

    // MARK: Cancellation

    @Test("Work cancelled before it starts never starts, nor does its dependent work")
    func cancelledWorkNeverStarts() async throws {
        try await Self.services().withWork(maximumExecuting: 1) { work in
            let gate = Gate()
            let first = try work.add("first") { try await gate.pass() }
            let second = try work.add("second") { Self.unexpectedStart() }
            let third = try work.add("third", after: [second]) { Self.unexpectedStart() }
            second.cancel()
            #expect([second.state, third.state] == [.cancelled, .cancelled])
            gate.open()
            let secondError = try await Self.failure(second)
            #expect(secondError.code == .cancelled)
            let thirdError = try await Self.failure(third)
            #expect(thirdError.code == .dependency && thirdError.dependency == "second")
            try await first.value
        }
    }

    @Test("A running operation has its task cancelled, and is cancelled when it has ended")
    func cancelRunning() async throws {
        try await Self.services().withWork { work in
            let item = try work.add("item") { try await Gate().pass() }
            try await Self.waitUntilExecuting(item)
            item.cancel()
            let error = try await Self.failure(item)
            #expect(error.code == .cancelled)
            #expect(item.state == .cancelled)
            item.cancel()
        }
    }

    @Test("An operation that ignores its cancellation has succeeded, and its dependent work starts")
    func ignoredCancellation() async throws {
        try await Self.services().withWork { work in
            let gate = Gate()
            let item = try work.add("item") {
                await Task { try? await gate.pass() }.value
                return 3
            }
            let next = try work.add("next", after: [item]) { try await item.value + 1 }
            try await Self.waitUntilExecuting(item)
            item.cancel()
            gate.open()
            let value = try await next.value
            #expect(value == 4)
        }
    }

    @Test("All work can be cancelled together, and more can be added")
    func cancelAll() async throws {
        try await Self.services().withWork(maximumExecuting: 1) { work in
            let running = try work.add("running") { try await Gate().pass() }
            let waiting = try work.add("waiting", after: [running]) { Self.unexpectedStart() }
            let ready = try work.add("ready") { Self.unexpectedStart() }
            try await Self.waitUntilExecuting(running)
            work.cancelAll()
            let runningError = try await Self.failure(running)
            let waitingError = try await Self.failure(waiting)
            let readyError = try await Self.failure(ready)
            #expect([runningError, waitingError, readyError].map(\.code) == [.cancelled, .cancelled, .cancelled])
            try await work.add("another") {}.value
        }
    }

    @Test("Waiting for a value can be cancelled without affecting the work")
    func waiterGivesUp() async throws {
        try await Self.services().withWork { work in
            let gate = Gate()
            let item = try work.add("item") {
                try await gate.pass()
                return 5
            }
            let waiter = Task { try await item.value }
            waiter.cancel()
            await #expect(throws: CancellationError.self) { try await waiter.value }
            gate.open()
            let value = try await item.value
            #expect(value == 5)
        }
    }

    // MARK: Limits

    @Test("A full queue rejects more work until some has ended")
    func fullQueueRejectsMoreWork() async throws {
        try await Self.services().withWork(maximumExecuting: 1, maximumPending: 2) { work in
            let gate = Gate()
            let first = try work.add("first") { try await gate.pass() }
            let second = try work.add("second") {}
            let error = #expect(throws: WorkError.self) { try work.add("third") {} }
            #expect(error?.code == .full)
            gate.open()
            try await first.value
            try await second.value
            try await work.add("third") {}.value
        }
    }

    @Test("Work of another queue cannot be a dependency")
    func workOfAnotherQueueIsNoDependency() async throws {
        let services = Self.services()
        let item = try WorkQueue(services).add("item") {}
        let error = #expect(throws: WorkError.self) { try WorkQueue(services).add("other", after: [item]) {} }
        #expect(error?.code == .invalid)
    }

    // MARK: Life cycle

    @Test("On graceful shutdown running operations are cancelled with `shutDown`, and no more work is accepted")
    func shutDown() async throws {
        let queue = WorkQueue(Self.services(), maximumExecuting: 1)
        let running = try queue.add("running") { try await Gate().pass() }
        let waiting = try queue.add("waiting", after: [running]) { Self.unexpectedStart() }
        let ready = try queue.add("ready") { Self.unexpectedStart() }
        let group = ServiceGroup(services: [queue], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let serving = Task { try await group.run() }
        try await Self.waitUntilExecuting(running)
        await group.triggerGracefulShutdown()
        for item in [running, waiting, ready] {
            let error = try await Self.failure(item)
            #expect(error.code == .shutDown)
            #expect(item.state == .cancelled)
        }
        try await serving.value
        let error = #expect(throws: WorkError.self) { try queue.add("late") {} }
        #expect(error?.code == .closed)
    }

    @Test("A queue whose task is cancelled ends like one that is shut down")
    func taskCancelled() async throws {
        let queue = WorkQueue(Self.services())
        let item = try queue.add("item") { try await Gate().pass() }
        let serving = Task { try await queue.run() }
        try await Self.waitUntilExecuting(item)
        serving.cancel()
        let error = try await Self.failure(item)
        #expect(error.code == .shutDown)
        _ = await serving.result
        await #expect(throws: WorkError.self) { try await queue.run() }
    }

    @Test("Nothing starts before the queue runs")
    func notRunning() async throws {
        let queue = WorkQueue(Self.services())
        let item = try queue.add("item") { 1 }
        #expect(item.state == .ready)
        let serving = Task { try await queue.run() }
        let value = try await item.value
        #expect(value == 1)
        serving.cancel()
        _ = await serving.result
    }

    @Test("At the end of its scope all work is done, and an error in the scope cancels it")
    func scope() async throws {
        let journal = Journal()
        try await Self.services().withWork(maximumExecuting: 1) { work in
            for _ in 0..<3 { _ = try work.add("item") { journal.note("done") } }
        }
        #expect(journal.all.count == 3)
        let added = NIOLockedValueBox<WorkItem<Void>?>(nil)
        await #expect(throws: TestError.self) {
            try await Self.services().withWork { work in
                let item = try work.add("item") { try await Gate().pass() }
                added.withLockedValue { $0 = item }
                throw TestError()
            }
        }
        let item = try #require(added.withLockedValue { $0 })
        let error = try await Self.failure(item)
        #expect(error.code == .cancelled)
    }
}

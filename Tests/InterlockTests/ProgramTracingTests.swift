import InMemoryTracing
import Interlock
import InterlockCore
import InterlockProcesses
import NIOCore
import Testing
import Tracing

@Suite("Spans for the tracer of a Swift program", .timeLimit(.minutes(2)))
struct ProgramTracingTests {
    private struct TestError: Error {}

    /// Returns the spans recorded during `body`, in the order in which they ended.
    private static func spans(
        of count: Int = 1, services: [ServiceDefinition] = [], _ body: @escaping @Sendable (Fleet) async throws -> Void
    ) async throws -> [FinishedInMemorySpan] {
        let tracer = InMemoryTracer()
        try await Fleet.run(of: count, services: services) { fleet in
            try await withTracer(tracer) { try await body(fleet) }
        }
        #expect(tracer.activeSpans.isEmpty)
        return tracer.finishedSpans
    }

    private static func service(limit: Int64 = 1000, window: Duration = .seconds(60)) -> ServiceDefinition {
        PermitTests.service(
            limits: [LimitDefinition(name: "own", limit: limit, window: window)],
            breaker: BreakerSettings(slowCall: .seconds(5), minimumCalls: 4, openFor: .seconds(30) ... .seconds(30)))
    }

    private static func nanoseconds(_ span: FinishedInMemorySpan) -> UInt64 {
        span.endInstant.nanosecondsSinceEpoch - span.startInstant.nanosecondsSinceEpoch
    }

    @Test("An acquired lock records its name, its fence and the decision in a child span of the caller's")
    func acquiredLockRecordsNameAndFence() async throws {
        let spans = try await Self.spans { fleet in
            try await withSpan("order") { _ in
                let lease = try #require(try await fleet.sidecars[0].locks.acquire("orders"))
                #expect(InstrumentationContext.current != nil)
                let attempt = try await fleet.sidecars[0].locks.acquire("orders")
                #expect(attempt == nil)
                try await fleet.sidecars[0].locks.release(lease)
            }
        }
        #expect(spans.map(\.operationName) == ["interlock.acquire", "interlock.acquire", "order"])
        let caller = try #require(spans.last)
        for span in spans.dropLast() {
            #expect(span.parentSpanID == caller.spanID)
            #expect(span.traceID == caller.traceID)
            #expect(span.attributes.get("interlock.lock") == .string("orders"))
            #expect(span.status == nil)
        }
        #expect(spans[0].attributes.get("interlock.decision") == .string("granted"))
        #expect(spans[0].attributes.get("interlock.fence") != nil)
        #expect(spans[1].attributes.get("interlock.decision") == .string("held"))
    }

    @Test("A wait for a lock is a child span that ends when the acquire is sent to Redis")
    func waitForLockIsChildSpan() async throws {
        let spans = try await Self.spans(of: 2) { fleet in
            let first = try #require(try await fleet.sidecars[1].acquireLock(try LockRequest("orders")))
            async let lease = fleet.sidecars[0].locks.acquire("orders", wait: .seconds(20))
            try await eventually(within: .seconds(10), "the caller waits") {
                await fleet.sidecars[0].status.lockWaiterCount == 1
            }
            let start = ContinuousClock.now
            // A delay of less than a millisecond does not count as a wait.
            try await eventually(within: .seconds(10), "the caller has waited") { .now - start > .milliseconds(5) }
            _ = try await fleet.sidecars[1].releaseLock(try ResourceName("orders"), token: first.token)
            #expect(try await lease != nil)
        }
        let wait = try #require(spans.first { $0.operationName == "interlock.wait" })
        let step = try #require(spans.last)
        #expect(step.operationName == "interlock.acquire")
        #expect(wait.parentSpanID == step.spanID)
        #expect(wait.startInstant.nanosecondsSinceEpoch == step.startInstant.nanosecondsSinceEpoch)
        #expect(wait.endInstant.nanosecondsSinceEpoch <= step.endInstant.nanosecondsSinceEpoch)
    }

    @Test("A wait whose task is cancelled fails in the trace")
    func waitWhoseTaskIsCancelledFailsInTrace() async throws {
        let spans = try await Self.spans(of: 2) { fleet in
            _ = try #require(try await fleet.sidecars[1].acquireLock(try LockRequest("orders")))
            let waiting = Task { try await fleet.sidecars[0].locks.acquire("orders", wait: .seconds(20)) }
            try await eventually(within: .seconds(10), "the caller waits") {
                await fleet.sidecars[0].status.lockWaiterCount == 1
            }
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
        }
        let step = try #require(spans.last)
        #expect(step.status == SpanStatus(code: .error, message: "given up"))
    }

    @Test("Acquiring several locks together is one span")
    func acquiringSeveralLocksTogetherIsOneSpan() async throws {
        let spans = try await Self.spans { fleet in
            _ = try #require(try await fleet.sidecars[0].locks.acquire(all: ["a", "b"]))
        }
        #expect(spans.map(\.operationName) == ["interlock.acquire"])
        #expect(spans.first?.attributes.get("interlock.locks") == .int64(2))
    }

    @Test("A take records its service, and a refusal records the limit")
    func takeRecordsItsService() async throws {
        let spans = try await Self.spans(services: [Self.service(limit: 1)]) { fleet in
            _ = try await fleet.sidecars[0].limits.take(from: "catalog")
            _ = try await fleet.sidecars[0].limits.take(from: "catalog")
        }
        #expect(spans.map(\.operationName) == ["interlock.take", "interlock.take"])
        #expect(spans.map { $0.attributes.get("interlock.decision") } == [.string("taken"), .string("limited")])
        #expect(spans.last?.attributes.get("interlock.limit") == .string("own"))
    }

    @Test("A guarded call has spans for its permit and its operation, which runs within the latter")
    func guardedCallHasSpansForPermitAndOperation() async throws {
        let spans = try await Self.spans(services: [Self.service(limit: 1, window: .seconds(3))]) { fleet in
            let services = fleet.sidecars[0].services
            try await services.call("catalog") {}
            try await services.call("catalog", wait: .seconds(10)) { withSpan("fetch") { _ in } }
        }
        let second = try #require(spans.last)
        #expect(second.operationName == "interlock.call")
        #expect(second.attributes.get("interlock.service") == .string("catalog"))
        #expect(second.attributes.get("interlock.outcome") == .string("ok"))
        let parts = spans.filter { $0.parentSpanID == second.spanID }
        #expect(parts.map(\.operationName) == ["interlock.permit", "interlock.upstream"])
        let permit = try #require(parts.first)
        #expect(permit.attributes.get("interlock.decision") == .string("granted"))
        let steps = spans.filter { $0.parentSpanID == permit.spanID }
        #expect(steps.map(\.operationName) == ["interlock.wait", "interlock.take"])
        #expect(steps.allSatisfy { Self.nanoseconds($0) <= Self.nanoseconds(permit) })
        let upstream = try #require(parts.last)
        #expect(upstream.kind == .client)
        #expect(spans.first { $0.operationName == "fetch" }?.parentSpanID == upstream.spanID)
    }

    @Test("Even with a tracer, the operation runs in its caller's isolation")
    @MainActor
    func isolation() async throws {
        // An actor-isolated closure would return to its actor anyway, so the test uses a function.
        func operation() async { MainActor.preconditionIsolated() }
        let tracer = InMemoryTracer()
        try await Fleet.run(services: [Self.service()]) { fleet in
            try await withTracer(tracer) {
                try await fleet.sidecars[0].services.call("catalog", operation: operation)
            }
        }
        #expect(tracer.finishedSpans.map(\.operationName).last == "interlock.call")
    }

    @Test("A call whose task is cancelled fails in the trace, whether it is waiting or running")
    func cancelledCall() async throws {
        let spans = try await Self.spans(services: [PermitTests.service(slots: 1, limits: [])]) { fleet in
            let services = fleet.sidecars[0].services
            let (started, start) = AsyncStream.makeStream(of: Void.self)
            let making = Task {
                try await services.call("catalog") {
                    start.yield()
                    try await Task.sleep(for: .seconds(60))
                }
            }
            for await _ in started { break }
            let waiting = Task { try await services.call("catalog", wait: .seconds(60)) {} }
            let sidecar = fleet.sidecars[0]
            try await eventually(within: .seconds(10), "the second call waits") {
                try await sidecar.eventLoop.submit {
                    sidecar.loopBound().activity(ofService: "catalog")?.waitingCount == 1
                }.get()
            }
            waiting.cancel()
            await #expect(throws: CancellationError.self) { try await waiting.value }
            making.cancel()
            await #expect(throws: CancellationError.self) { try await making.value }
        }
        let calls = spans.filter { $0.operationName == "interlock.call" }
        #expect(calls.count == 2)
        #expect(calls.allSatisfy { $0.status?.message == "given up" && $0.errors.isEmpty })
        #expect(spans.first { $0.operationName == "interlock.upstream" }?.status?.message == "given up")
    }

    @Test("A failed call and a refused one fail in the trace")
    func failedCallAndRefusedOneFailInTrace() async throws {
        let spans = try await Self.spans(services: [Self.service(limit: 1)]) { fleet in
            let services = fleet.sidecars[0].services
            await #expect(throws: TestError.self) { try await services.call("catalog") { throw TestError() } }
            await #expect(throws: ServiceCallError.self) { try await services.call("catalog") {} }
            await #expect(throws: ServiceCallError.self) { try await services.call("no-such") {} }
        }
        let calls = spans.filter { $0.operationName == "interlock.call" }
        #expect(calls.count == 3)
        #expect(calls.allSatisfy { $0.status?.code == .error && $0.errors.count == 1 })
        #expect(calls.first?.attributes.get("interlock.outcome") == .string("error"))
        #expect(calls[1].status?.message?.contains("a limit of the service \"catalog\" is reached") == true)
        let permits = spans.filter { $0.operationName == "interlock.permit" }
        #expect(
            permits.map { $0.attributes.get("interlock.decision") } == [
                .string("granted"), .string("limited"), .string("failed"),
            ])
        #expect(permits.last?.status?.code == .error)
        #expect(spans.filter { $0.operationName == "interlock.upstream" }.map(\.status?.code) == [.error])
    }
}

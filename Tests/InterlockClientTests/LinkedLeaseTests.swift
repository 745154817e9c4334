import InterlockClient
import InterlockProcesses
import Testing

@Suite("Linked leases", .timeLimit(.minutes(3)))
struct LinkedLeaseTests {
    @Test("A linked lease is renewed past its TTL and can be released")
    func release() async throws {
        try await TestSidecar.withClient { client in
            let linked = try #require(try await client.locks.acquireLinked("orders", ttl: .milliseconds(300)))
            let fence = linked.lease.fence
            #expect(try await client.locks.acquire("orders", ttl: .seconds(30), wait: .seconds(1)) == nil)
            #expect(try await linked.release())
            for await loss in linked.losses { Issue.record("unexpected loss: \(loss)") }
            #expect(try await client.locks.acquire("orders", ttl: .seconds(30))?.fence ?? 0 > fence)
        }
    }

    @Test("A linked lease broken by an operator is reported as lost, and is not released")
    func brokenLinkedLeaseIsReportedAsLost() async throws {
        try await TestSidecar.withClient { client in
            let linked = try #require(try await client.locks.acquireLinked("orders", ttl: .seconds(30)))
            #expect(try await client.locks.breakLock("orders", fence: 1) == false)
            #expect(try await client.locks.breakLock("orders"))
            var losses = linked.losses.makeAsyncIterator()
            #expect(await losses.next() == .disconnected)
            #expect(try await linked.release() == false)
        }
    }

    @Test("A linked lease that is dropped is released")
    func linkedLeaseThatIsDroppedIsReleased() async throws {
        try await TestSidecar.withClient { client in
            var linked = try await client.locks.acquireLinked("orders", ttl: .seconds(30))
            #expect(linked != nil)
            linked = nil
            #expect(try await client.locks.acquire("orders", ttl: .seconds(30), wait: .seconds(20)) != nil)
        }
    }

    @Test("Closing the client ends its linked leases, and the sidecar releases them")
    func clientClosed() async throws {
        try await TestSidecar.with { sidecar in
            let client = SidecarClient(sidecar.configuration)
            let linked = try #require(try await client.locks.acquireLinked("orders", ttl: .seconds(30)))
            await client.close()
            var losses = linked.losses.makeAsyncIterator()
            #expect(await losses.next() != nil)
            try await SidecarClient.withClient(sidecar.configuration) { other in
                let lease = try await other.locks.acquire("orders", ttl: .seconds(30), wait: .seconds(20))
                #expect(lease != nil)
            }
        }
    }

    @Test("The body of withLock does not run while the lock is held, and the caller gets an error")
    func bodyDoesNotRunWhileLockIsHeld() async throws {
        try await TestSidecar.withClient { client in
            let runs = Runs()
            let fence: Int64? = try await client.locks.withLock("orders") { outer in
                let heldError = await #expect(throws: InterlockError.self) {
                    try await client.locks.withLock("orders") { _ in await runs.add() }
                }
                #expect(heldError?.code == .held)
                let timedOut = await #expect(throws: InterlockError.self) {
                    try await client.locks.withLock("orders", wait: .milliseconds(50)) { _ in await runs.add() }
                }
                #expect(timedOut?.code == .waitTimedOut)
                return outer.fence
            }
            #expect(fence ?? 0 > 0)
            #expect(await runs.count == 0)
            #expect(try await client.locks.information(about: "orders")?.isHeld != true)
        }
    }

    @Test("The body of withLock is cancelled when the lease is lost")
    func lostWork() async throws {
        try await TestSidecar.withClient { client in
            let error = await #expect(throws: InterlockError.self) {
                try await client.locks.withLock("orders") { _ in
                    let wasBroken = try await client.locks.breakLock("orders")
                    #expect(wasBroken)
                    // The loop ends only when the task is cancelled, because nothing finishes the stream.
                    for await _ in AsyncStream<Void>.makeStream().stream {}
                }
            }
            #expect(error?.code == .leaseLost)
        }
    }
}

/// A count of the runs of a body.
private actor Runs {
    private(set) var count = 0

    func add() { count += 1 }
}

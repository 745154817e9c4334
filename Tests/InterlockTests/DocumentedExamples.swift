// The code between `snippet` and `end` appears verbatim in the article
// `Sources/Interlock/Interlock.docc/HoldingLocks.md`, which proves that documented code compiles. `DocumentationTests`
// compares the two and runs the examples that can run.

// snippet: imports
import Interlock
import Logging
import ServiceLifecycle
import UnixSignals
// end

// snippet: store
/// The resource that the lock guards. It remembers the highest fence that it has seen, and refuses lower ones.
actor OrderStore {
    private var states: [Int: String] = [:]
    private var highestFence: Int64 = 0

    func write(_ state: String, to order: Int, fence: Int64) throws {
        guard fence >= highestFence else { throw OutdatedFence(fence: fence, highest: highestFence) }
        highestFence = fence
        states[order] = state
    }

    func state(of order: Int) -> String? { states[order] }
}

struct OutdatedFence: Error {
    var fence: Int64
    var highest: Int64
}
// end

// snippet: errors
struct Cashier {
    let coordinator: Coordinator
    let store: OrderStore

    func pay(_ order: Int) async throws -> String {
        do {
            try await coordinator.locks.withLock("orders", wait: .milliseconds(200)) { lease in
                try await store.write("paid", to: order, fence: lease.fence)
            }
            return "paid"
        } catch let error as InterlockError {
            switch error.code {
            case .held, .waitTimedOut: return "another worker holds the lock: try again later"
            case .leaseLost: return "the lease was lost: check what was completed"
            case .unavailable, .unreplicated: return "Redis is unreachable: nothing was begun"
            default: throw error  // a mistake in this program
            }
        }
    }
}
// end

// snippet: service
struct Sweeper: Service {
    let coordinator: Coordinator

    /// Sweeps on one sidecar of the fleet; the others wait until it ends.
    func run() async throws {
        await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                do {
                    try await coordinator.locks.withLock("sweeper", ttl: .seconds(10), wait: .seconds(60)) { lease in
                        while true {
                            try await sweep(fence: lease.fence)
                            try await Task.sleep(for: .seconds(1))
                        }
                    }
                } catch {
                    // Another holder has the lock, the lease was lost, or Redis is unreachable: try again.
                    try? await Task.sleep(for: .seconds(1))
                }
            }
        }
    }

    private func sweep(fence: Int64) async throws {
        // … pass the fence to everything that is swept …
    }
}
// end

/// The examples that are bodies of functions.
enum DocumentedExamples {
    static func makeCoordinator() throws -> Coordinator {
        // snippet: coordinator
        let coordinator = Coordinator(
            try InterlockConfiguration(redis: "redis://127.0.0.1:6379", host: "shop"), logger: Logger(label: "interlock"))
        // end
        return coordinator
    }

    static func runLifecycle(of coordinator: Coordinator, body: () async throws -> Void) async throws {
        // snippet: life
        await coordinator.start()
        await coordinator.waitUntilReady()
        // end
        try await body()
        // snippet: end-of-life
        await coordinator.stop()
        // end
    }

    static func hold(_ coordinator: Coordinator, store: OrderStore) async throws -> Int64 {
        // snippet: holding
        let fence = try await coordinator.locks.withLock("orders", ttl: .seconds(10), wait: .seconds(5)) { lease in
            try await store.write("packed", to: 7, fence: lease.fence)
            return lease.fence
        }
        // end
        return fence
    }

    static func giveUp(_ coordinator: Coordinator) async -> Result<Int64, any Error> {
        // snippet: waiting
        let waiting = Task {
            try await coordinator.locks.withLock("orders", wait: .seconds(60)) { lease in lease.fence }
        }
        // The task was cancelled: the call has left the queue.
        waiting.cancel()
        // end
        return await waiting.result
    }

    static func share(
        _ coordinator: Coordinator, render: @escaping @Sendable () async throws -> Void,
        prices: @escaping @Sendable () async throws -> [Int]
    ) async throws -> Int {
        // snippet: sharing
        // At most four in the whole fleet.
        try await coordinator.locks.withLock("thumbnails", wait: .seconds(10), mode: .permits(4)) { _ in
            try await render()
        }
        // Shared with other readers; excludes writers.
        let total = try await coordinator.locks.withLock("prices", wait: .seconds(10), mode: .shared) { _ in
            try await prices().reduce(0, +)
        }
        // end
        return total
    }

    static func several(_ coordinator: Coordinator) async throws -> [Int64]? {
        // snippet: several
        let accounts = ["account-9", "account-1"]
        let leases = try await coordinator.locks.acquire(all: accounts, ttl: .seconds(10), wait: .seconds(5))
        guard let leases else { return nil }
        // … show each account the fence of its own lease …
        for lease in leases { try await coordinator.locks.release(lease) }
        // end
        return leases.map(\.fence)
    }

    static func follow(_ coordinator: Coordinator) async throws -> LeaseLoss? {
        // snippet: following
        let lease = try await coordinator.locks.acquire("orders", ttl: .seconds(10), wait: .seconds(5), label: "nightly")
        guard let lease else { return nil }
        let followed = try await coordinator.locks.follow(lease, renews: true)
        for await loss in followed.losses {
            // Stop the work: another may have the lock.
            return loss
        }
        // No loss: the lease was released elsewhere, or this task was cancelled. A cancelled task can release, too.
        try await coordinator.locks.release(lease)
        // end
        return nil
    }

    static func serve(_ coordinator: Coordinator, logger: Logger) async throws {
        // snippet: group
        let group = ServiceGroup(
            services: [coordinator, Sweeper(coordinator: coordinator)],
            gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        try await group.run()
        // end
    }

    static func runOnExecutor(_ coordinator: Coordinator) async throws -> Int {
        // snippet: near
        let rounds = Task(executorPreference: coordinator.taskExecutor) {
            var count = 0
            while count < 100, let lease = try await coordinator.locks.acquire("orders") {
                count += 1
                try await coordinator.locks.release(lease)
            }
            return count
        }
        // end
        return try await rounds.value
    }
}

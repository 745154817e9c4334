// The code between `snippet` and `end` appears verbatim in `docs/swift/README.md`; see `DocumentedExamples.swift`.
import Interlock
import Logging
import ServiceLifecycle
import UnixSignals

struct Shop: Service {
    var coordinator: Coordinator

    func run() async throws { try await gracefulShutdown() }
}

/// The examples that are bodies of functions.
enum DocumentedLibraryExamples {
    static func makeGroup() throws -> (Coordinator, ServiceGroup) {
        // snippet: life
        let configuration = try InterlockConfiguration(
            redis: "redis://127.0.0.1:6379",
            services: [
                ServiceDefinition(
                    name: "catalog",
                    limits: [
                        LimitDefinition(name: "1s", limit: 10, window: .seconds(1)),
                        LimitDefinition(name: "tenant", limit: 100, window: .seconds(60), isPerSubject: true),
                    ],
                    onLimit: LimitPolicy(action: .wait, maximumWait: .seconds(2)))
            ])
        let coordinator = Coordinator(configuration, logger: Logger(label: "shop"))
        let group = ServiceGroup(
            services: [coordinator, Shop(coordinator: coordinator)], gracefulShutdownSignals: [.sigterm, .sigint],
            logger: Logger(label: "shop"))
        // end
        return (coordinator, group)
    }

    static func hold(
        _ coordinator: Coordinator, order: Int, add: @escaping @Sendable (Int, Int64) async throws -> Int
    ) async throws -> Int {
        let total = try await coordinator.locks.withLock("orders", ttl: .seconds(10), wait: .seconds(5)) { lease in
            // The guarded resource refuses a fence that is lower than one it has seen.
            try await add(order, lease.fence)
        }
        return total
    }

    static func take(_ coordinator: Coordinator) async throws -> LimitDecision? {
        // snippet: limit
        let decision = try await coordinator.limits.take(from: "catalog", subject: "shop-1", wait: .milliseconds(500))
        guard decision.isAllowed else {
            print("limit \(decision.limitName ?? "-") is reached; try again in \(decision.retryAfter ?? .zero)")
            return nil
        }
        // end
        return decision
    }

    static func call(
        _ coordinator: Coordinator, fetch: (String) async throws -> [String]
    ) async throws -> [String] {
        // The breaker, the limits and the concurrency are checked first; the outcome is reported afterwards.
        let items = try await coordinator.services.call("catalog", subject: "shop-1") {
            try await fetch("https://api.example.com/v2/items")
        }
        return items
    }
}

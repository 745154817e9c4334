// The lines between `snippet` and `end` are in `docs/swift/client.md`, word for word; `DocumentationTests` compares
// them.
// snippet: modules
import InterlockClient
// end

/// The examples of `docs/swift/client.md`, and further calls for the tests. Values that the page does not define are
/// parameters.
struct DocumentedClientExamples {
    var configuration: SidecarClientConfiguration

    static func addressed() throws -> SidecarClientConfiguration {
        // snippet: configuration
        var configuration = SidecarClientConfiguration(
            address: .tls(host: "interlock.internal", port: 7379), apiKey: "the key of this program")
        configuration.responseTimeout = .seconds(2)
        // end
        return configuration
    }

    /// Holds the lock while `report` runs. Returns whether the lock was free.
    func hold(report: @escaping @Sendable (Int64) async throws -> Void) async throws -> Bool {
        // snippet: hello
        do {
            try await SidecarClient.withClient(configuration) { client in
                try await client.locks.withLock("nightly-report", wait: .seconds(5)) { lease in
                    try await report(lease.fence)
                }
            }
        } catch let error as InterlockError where error.code == .waitTimedOut {
            print("another client holds the lock")
        }
        // end
        return true
    }

    /// Acquires, renews and releases a lease.
    /// - Returns: the validity of the renewed lease; `nil` if another client holds the lock or the lease was lost.
    func renew(_ client: SidecarClient) async throws -> Duration? {
        // snippet: lease
        let lease = try await client.locks.acquire("orders", ttl: .seconds(30), owner: "web-1/job-7", label: "web-1")
        guard let lease else { return nil }
        // … work for less than lease.validity, and pass lease.fence to the resource that the lock guards …
        let validity = try await client.locks.renew(lease)
        let wasHeld = try await client.locks.release(lease)
        // end
        return wasHeld ? validity : nil
    }

    /// Works with a linked lease. Returns whether the lease was lost before it was released.
    func link(_ client: SidecarClient, work: @escaping @Sendable () async -> Void) async throws -> Bool {
        guard let linked = try await client.locks.acquireLinked("leader", ttl: .seconds(10)) else { return false }
        let watch = Task { [losses = linked.losses] in
            for await _ in losses { return true }
            return false
        }
        await work()
        try await linked.release()
        return await watch.value
    }

    /// Makes a guarded call. Returns its result; `nil` if the call was refused.
    func call(_ client: SidecarClient, fetch: () async throws -> Int) async throws -> Int? {
        do {
            return try await client.services.call("catalog", subject: "shop-1", wait: .milliseconds(500)) {
                try await fetch()
            }
        } catch let error as ServiceCallError {
            print("\(error.code); try again in \(error.retryAfter ?? .zero)")
            return nil
        }
    }

    /// Takes two units of a limit. Returns whether the call may be made.
    func take(_ client: SidecarClient) async throws -> Bool {
        let decision = try await client.limits.take(from: "catalog", cost: 2, subject: "shop-1")
        if !decision.isAllowed { print("\(decision.remaining) left; try again in \(decision.retryAfter ?? .zero)") }
        return decision.isAllowed
    }

    /// Returns the state of the first breaker that changes.
    func watch(_ client: SidecarClient, following: () -> Void) async -> BreakerSnapshot.State? {
        let changes = client.events.breakers.subscribe()
        for await connection in client.events.connection where connection == .following {
            following()  // read the state now: from here on nothing is missed
            break
        }
        for await event in changes { return event.breaker.state }
        return nil
    }

    /// Returns the outcome of an acquire, in words.
    func judged(_ client: SidecarClient) async throws -> String {
        do {
            let lease = try await client.locks.acquire("orders", ttl: .seconds(30), owner: "web-1/job-7")
            return lease == nil ? "another client holds the lock" : "held"
        } catch let error as InterlockError {
            if error.isConnectionFailure { return "no sidecar: nothing was begun" }
            if error.isOutcomeUnknown { return "it may be held: ask again with the same owner" }
            switch error.code {
            case .unavailable: return "the sidecar has no Redis"
            case .missingAPIKey, .invalidAPIKey, .permissionDenied: return "the API key"
            default: throw error  // a mistake in this program
            }
        }
    }
}

internal import Interlock
internal import InterlockCore
internal import NIOConcurrencyHelpers
internal import NIOHTTP1

/// A minimal lock service: `GET` acquires a lock, and `DELETE` releases a lock that the same API key acquired. Clients
/// send no body and keep no token.
struct MinimalLockRoutes {
    let coordinator: Coordinator
    private let leases = RememberedLeases()

    /// The default TTL of a lease, in seconds.
    private static let defaultTTLSeconds: Int64 = 30

    init(coordinator: Coordinator) {
        self.coordinator = coordinator
    }

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.GET, "/lock", for: .keyHolder, servesHead: false, onEventLoop: acquire),
            HTTPRoute(.DELETE, "/lock", for: .keyHolder, inTask: release),
        ]
    }

    /// Acquires a lock with a token that the coordinator chooses, so that a second request with the same key finds the
    /// lock held.
    private func acquire(_ call: HTTPCall, _ responder: HTTPResponder) throws {
        let query = try call.query("hash", "ttl")
        let name = try Self.name(query)
        let ttlSeconds =
            try query.integer("ttl", in: 1...(RequestLimits.maximumMilliseconds / 1000)) ?? Self.defaultTTLSeconds
        let request = LockRequest(name: name, ttlMilliseconds: ttlSeconds * 1000, label: call.caller.name)
        let delivery = LeaseDelivery(coordinator: coordinator)
        let caller = call.caller.name
        guard leases.reserve(for: caller) else {
            throw HTTPProblem(
                .unavailable,
                "this caller already holds \(RememberedLeases.capacity) leases of /lock; release some, or use /v1/locks")
        }
        delivery.acquire(request, responder, for: call.span, onEnd: { [leases] in leases.cancel(for: caller) }) {
            [leases] lease in
            leases.remember(
                lease.name, token: lease.token, fence: lease.fence, acquiredBy: caller, ttlMilliseconds: request.ttlMilliseconds)
            var response = HTTPResponse.object(lease.fields)
            response.ifUndelivered = {
                leases.forget(lease.name, acquiredBy: caller, token: lease.token)
                delivery.releaseUndelivered([lease], of: nil)
            }
            return responder(response)
        }
    }

    private func release(_ call: HTTPCall) async throws -> HTTPResponse {
        let query = try call.query("hash", "fence")
        let name = try Self.name(query)
        let fence = try query.integer("fence", in: RequestLimits.fenceRange)
        // The key may have acquired the lock again: the fence of an earlier lease must not release a later one.
        guard let (token, currentFence) = leases.lease(of: name.text, acquiredBy: call.caller.name),
            fence ?? currentFence == currentFence
        else {
            throw HTTPProblem.lost(name)
        }
        let wasHeld = try await coordinator.releaseLock(name, token: token, fence: fence)
        leases.forget(name.text, acquiredBy: call.caller.name, token: token)
        guard wasHeld else { throw HTTPProblem.lost(name) }
        return .noContent
    }

    private static func name(_ query: HTTPQuery) throws -> ResourceName {
        guard let text = query.text("hash") else { throw HTTPProblem(.invalid, "hash is missing; expected the lock's name") }
        return try ResourceName(text, parameter: "hash")
    }
}

/// The tokens of leases that were acquired with `GET /lock`, by API key. The number of leases of each key is limited.
/// Lapsed leases are dropped when the limit is reached.
final class RememberedLeases: Sendable {
    /// The maximum number of leases of one API key.
    static let capacity = 10_000

    /// The minimum interval between two sweeps of lapsed leases.
    private static let sweepInterval = Duration.milliseconds(100)

    private struct Entry {
        let token: String
        let fence: Int64
        let deadline: ContinuousClock.Instant
    }

    /// The leases of one caller.
    private struct CallerLeases {
        var entries: [ExactText: Entry] = [:]
        /// The number of leases that are being acquired.
        var reservedCount = 0
        /// The earliest time of the next sweep; `nil` before the first.
        var nextSweep: ContinuousClock.Instant?

        mutating func reserve() -> Bool {
            if entries.count + reservedCount >= RememberedLeases.capacity {
                let now = ContinuousClock.now
                guard nextSweep.map({ $0 <= now }) ?? true else { return false }
                nextSweep = now + sweepInterval
                entries = entries.filter { $0.value.deadline > now }
            }
            guard entries.count + reservedCount < RememberedLeases.capacity else { return false }
            reservedCount += 1
            return true
        }
    }

    /// The leases, by the name of the caller's key.
    private let leasesByCaller = NIOLockedValueBox<[String: CallerLeases]>([:])

    /// Reserves capacity for a lease that is being acquired, until `cancel`.
    /// - Returns: `false` if the limit is reached.
    func reserve(for caller: String) -> Bool {
        leasesByCaller.withLockedValue { $0[caller, default: CallerLeases()].reserve() }
    }

    /// Ends a reservation, because the lease is remembered or was not granted.
    func cancel(for caller: String) {
        leasesByCaller.withLockedValue { $0[caller]?.reservedCount -= 1 }
    }

    /// Remembers a lease for the duration of its TTL.
    func remember(_ lock: String, token: String, fence: Int64, acquiredBy caller: String, ttlMilliseconds: Int64) {
        let entry = Entry(token: token, fence: fence, deadline: .now + .milliseconds(ttlMilliseconds))
        leasesByCaller.withLockedValue { $0[caller, default: CallerLeases()].entries[ExactText(lock)] = entry }
    }

    func lease(of lock: String, acquiredBy caller: String) -> (token: String, fence: Int64)? {
        leasesByCaller.withLockedValue { $0[caller]?.entries[ExactText(lock)].map { ($0.token, $0.fence) } }
    }

    /// Forgets a lease, unless the lock has since been acquired again.
    func forget(_ lock: String, acquiredBy caller: String, token: String) {
        leasesByCaller.withLockedValue { leasesByCaller in
            guard leasesByCaller[caller]?.entries[ExactText(lock)]?.token == token else { return }
            leasesByCaller[caller]?.entries[ExactText(lock)] = nil
        }
    }
}

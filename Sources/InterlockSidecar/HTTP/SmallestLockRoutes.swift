internal import Interlock
internal import InterlockCore
internal import NIOConcurrencyHelpers
internal import NIOHTTP1

/// The smallest lock service: `GET` takes, `DELETE` frees what the same API key took. No body, no token to keep.
struct SmallestLockRoutes {
    let coordinator: Coordinator
    private let leases = RememberedLeases()

    /// The lease's length in seconds when the request does not say.
    private static let defaultSeconds: Int64 = 30

    init(coordinator: Coordinator) {
        self.coordinator = coordinator
    }

    var routes: [HTTPRoute] {
        [
            HTTPRoute(.GET, "/lock", for: .keyHolder, answersHead: false, reply: take),
            HTTPRoute(.DELETE, "/lock", for: .keyHolder, answer: free),
        ]
    }

    /// The token is the coordinator's own, never the caller's: so the same key asking again finds the lock held.
    private func take(_ call: HTTPCall, _ reply: HTTPReply) throws {
        let query = try call.query("hash", "ttl")
        let name = try Self.name(query)
        let seconds = try query.integer("ttl", in: 1...(DoorBounds.longestMilliseconds / 1000)) ?? Self.defaultSeconds
        let request = LockRequest(name: name, ttl: seconds * 1000, label: call.caller.name)
        let delivery = LeaseDelivery(coordinator: coordinator)
        let caller = call.caller.name
        guard leases.reserve(for: caller) else {
            throw HTTPProblem(
                .unavailable, "\(RememberedLeases.capacity) leases of /lock stand in this sidecar; use /v1/locks, or free some")
        }
        delivery.acquire(request, reply, for: call.span, ended: { [leases] in leases.cancel(for: caller) }) { [leases] lease in
            leases.remember(
                lease.name, token: lease.token, fence: lease.fence, takenBy: caller, milliseconds: request.ttl)
            var answer = HTTPAnswer.object(lease.members)
            answer.ifUndelivered = {
                leases.forget(lease.name, takenBy: caller, token: lease.token)
                delivery.giveBack([lease], of: nil)
            }
            return reply(answer)
        }
    }

    private func free(_ call: HTTPCall) async throws -> HTTPAnswer {
        let query = try call.query("hash", "fence")
        let name = try Self.name(query)
        let fence = try query.integer("fence", in: DoorBounds.fences)
        // The key may have taken the lock again: the fence of an earlier lease must not free a later one.
        guard let (token, last) = leases.lease(of: name.text, takenBy: call.caller.name), fence ?? last == last else {
            throw HTTPProblem.lost(name)
        }
        let wasHeld = try await coordinator.releaseLock(name, token: token, fence: fence)
        leases.forget(name.text, takenBy: call.caller.name, token: token)
        guard wasHeld else { throw HTTPProblem.lost(name) }
        return .noContent
    }

    private static func name(_ query: HTTPQuery) throws -> ResourceName {
        guard let text = query.text("hash") else { throw HTTPProblem(.invalid, "hash is missing: the lock's name") }
        return try ResourceName(text, what: "hash")
    }
}

/// The tokens of the leases that were taken by `GET /lock`, for the API key that took them. Bounded for each key; what has lapsed
/// is dropped when room is needed.
final class RememberedLeases: Sendable {
    static let capacity = 10_000

    /// The least time between two looks for leases that have lapsed.
    private static let sweepPause = Duration.milliseconds(100)

    private struct Entry {
        let token: String
        let fence: Int64
        let deadline: ContinuousClock.Instant
    }

    /// What one caller has.
    private struct Shelf {
        var entries: [ExactText: Entry] = [:]
        /// Places of leases that are being asked for.
        var reserved = 0
        var nextSweep: ContinuousClock.Instant?

        mutating func reserve() -> Bool {
            if entries.count + reserved >= RememberedLeases.capacity {
                let now = ContinuousClock.now
                guard nextSweep.map({ $0 <= now }) ?? true else { return false }
                nextSweep = now + sweepPause
                entries = entries.filter { $0.value.deadline > now }
            }
            guard entries.count + reserved < RememberedLeases.capacity else { return false }
            reserved += 1
            return true
        }
    }

    /// By caller, whose names are those of the API keys.
    private let shelves = NIOLockedValueBox<[String: Shelf]>([:])

    /// Keeps a place for a lease that is being asked for, until `cancel`. `false`: there is none.
    func reserve(for caller: String) -> Bool {
        shelves.withLockedValue { $0[caller, default: Shelf()].reserve() }
    }

    /// The place is not needed any more: the lease is remembered, or there is none.
    func cancel(for caller: String) {
        shelves.withLockedValue { $0[caller]?.reserved -= 1 }
    }

    func remember(_ lock: String, token: String, fence: Int64, takenBy caller: String, milliseconds: Int64) {
        let entry = Entry(token: token, fence: fence, deadline: .now + .milliseconds(milliseconds))
        shelves.withLockedValue { $0[caller, default: Shelf()].entries[ExactText(lock)] = entry }
    }

    func lease(of lock: String, takenBy caller: String) -> (token: String, fence: Int64)? {
        shelves.withLockedValue { $0[caller]?.entries[ExactText(lock)].map { ($0.token, $0.fence) } }
    }

    /// Unless the lock has been taken again meanwhile.
    func forget(_ lock: String, takenBy caller: String, token: String) {
        shelves.withLockedValue { shelves in
            guard shelves[caller]?.entries[ExactText(lock)]?.token == token else { return }
            shelves[caller]?.entries[ExactText(lock)] = nil
        }
    }
}

internal import InterlockCore

/// An operation that was invoked.
struct Call: Sendable {
    var client: Int
    var sidecar: Int
    var operation: Operation
    var invoked: Instant
    /// The number of leases that were granted before the call, over all locks. A lease granted to this call is known to
    /// be newer.
    var earlierGrantCount: Int

    /// The amount that the call may take from its service's limits; `nil` if it takes nothing.
    var demand: Demand? {
        switch operation {
        case .take(let service, let cost, let subject, _): Demand(service: service, cost: cost, subject: subject)
        case .permit(let service, let subject, _): Demand(service: service, cost: 1, subject: subject)
        case .proxied(let service): Demand(service: service, cost: 1, subject: nil)
        case .acquire, .renew, .release, .report: nil
        }
    }

    /// The lock that the call may hold, and the TTL in milliseconds; `nil` if the call cannot hold a lock.
    var lockAndTTL: (lock: Int, ttlMilliseconds: Int64)? {
        switch operation {
        case .acquire(let lock, _, let ttlMilliseconds, _, _), .renew(let lock, _, let ttlMilliseconds):
            (lock, ttlMilliseconds)
        case .release, .take, .permit, .report, .proxied: nil
        }
    }

    /// The amount that a call may take from its service's limits.
    struct Demand: Sendable {
        var service: Int
        var cost: Int64
        var subject: Int?
    }
}

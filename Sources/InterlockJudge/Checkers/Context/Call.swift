internal import InterlockCore

/// An operation that was invoked.
struct Call: Sendable {
    var client: Int
    var sidecar: Int
    var operation: Operation
    var invoked: Instant
    /// The number of leases granted before the call, over all locks. A grant of this call is known to be later than
    /// those.
    var grantsBefore: Int

    /// The amount that the call may take from its service's limits; `nil` if it takes nothing.
    var demand: Demand? {
        switch operation {
        case .take(let service, let cost, let subject, _): Demand(service: service, cost: cost, subject: subject)
        case .permit(let service, let subject, _): Demand(service: service, cost: 1, subject: subject)
        case .proxied(let service): Demand(service: service, cost: 1, subject: nil)
        case .acquire, .renew, .release, .report: nil
        }
    }

    /// The lock that the call may hold, and its TTL in milliseconds; `nil` if it cannot hold one.
    var lockAndTTL: (lock: Int, ttl: Int64)? {
        switch operation {
        case .acquire(let lock, _, let ttl, _, _), .renew(let lock, _, let ttl): (lock, ttl)
        case .release, .take, .permit, .report, .proxied: nil
        }
    }

    struct Demand: Sendable {
        var service: Int
        var cost: Int64
        var subject: Int?
    }
}

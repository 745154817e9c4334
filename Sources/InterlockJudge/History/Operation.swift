/// An operation that a client requests from a sidecar. Locks and services are numbered within the run.
package enum Operation: Hashable, Sendable, Codable {
    /// `LOCK.ACQUIRE` for `ttlMilliseconds`, waiting for at most `waitMilliseconds`. If one call acquires several
    /// locks, each is a separate operation with its own client number.
    case acquire(lock: Int, mode: LeaseMode, ttlMilliseconds: Int64, waitMilliseconds: Int64, isJoint: Bool = false)
    /// `LOCK.RENEW` of the client's lease for `ttlMilliseconds`.
    case renew(lock: Int, lease: LeaseID, ttlMilliseconds: Int64)
    /// `LOCK.RELEASE`. The client stops relying on the lease as soon as it sends the request.
    case release(lock: Int, lease: LeaseID)
    /// `LIMIT.TAKE`.
    case take(service: Int, cost: Int64, subject: Int?, waitMilliseconds: Int64)
    /// `PERMIT.ACQUIRE`.
    case permit(service: Int, subject: Int? = nil, waitMilliseconds: Int64)
    /// `PERMIT.REPORT` of a permit. The call is over as soon as the client sends the report.
    case report(service: Int, permit: PermitNumber, isOK: Bool)
    /// A request through the guarded proxy.
    case proxied(service: Int)

    /// The kind of the operation, for reports and history files.
    package var kind: OperationKind {
        switch self {
        case .acquire: .acquire
        case .renew: .renew
        case .release: .release
        case .take: .take
        case .permit: .permit
        case .report: .report
        case .proxied: .proxied
        }
    }

    /// The service that the operation uses; `nil` for lock operations.
    package var service: Int? {
        switch self {
        case .acquire, .renew, .release: nil
        case .take(let service, _, _, _), .permit(let service, _, _), .report(let service, _, _), .proxied(let service): service
        }
    }

    /// The maximum time that the operation may wait for its turn, in milliseconds.
    package var waitMilliseconds: Int64 {
        switch self {
        case .acquire(_, _, _, let milliseconds, _), .take(_, _, _, let milliseconds), .permit(_, _, let milliseconds):
            milliseconds
        case .renew, .release, .report, .proxied: 0
        }
    }
}

internal import InterlockCore

/// What a client asks of a sidecar. Locks and services go by their numbers in the run.
public enum Operation: Hashable, Sendable, Codable {
    /// `LOCK.ACQUIRE` of a lock for `ttl` ms, waiting for at most `wait` ms. Of several locks that are taken together each is an
    /// operation of its own, under another client's number.
    case acquire(lock: Int, mode: LeaseMode, ttl: Int64, wait: Int64, isJoint: Bool = false)
    /// `LOCK.RENEW` of the client's lease for `ttl` ms.
    case renew(lock: Int, lease: LeaseID, ttl: Int64)
    /// `LOCK.RELEASE`: from the moment it is invoked the client no longer believes that it holds the lease.
    case release(lock: Int, lease: LeaseID)
    /// `LIMIT.TAKE`.
    case take(service: Int, cost: Int64, subject: Int?, wait: Int64)
    /// `PERMIT.ACQUIRE`.
    case permit(service: Int, subject: Int? = nil, wait: Int64)
    /// `PERMIT.REPORT` of a permit: from the moment it is invoked the call is over.
    case report(service: Int, permit: PermitNumber, isOK: Bool)
    /// A request through the guarded proxy.
    case proxied(service: Int)

    /// What it is counted as.
    public var kind: OperationKind {
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

    /// The service that it is about.
    package var service: Int? {
        switch self {
        case .acquire, .renew, .release: nil
        case .take(let service, _, _, _), .permit(let service, _, _), .report(let service, _, _), .proxied(let service): service
        }
    }

    /// For how many milliseconds it may wait for its turn.
    public var wait: Int64 {
        switch self {
        case .acquire(_, _, _, let wait, _), .take(_, _, _, let wait), .permit(_, _, let wait): wait
        case .renew, .release, .report, .proxied: 0
        }
    }
}

/// The kinds of operations, as reports name them.
public enum OperationKind: String, Hashable, Sendable, Codable, CaseIterable {
    case acquire, renew, release, take, permit, report
    case proxied = "proxy"
}

/// Numbers a lease within a run: each grant has another.
public typealias LeaseID = Int64

/// Numbers a permit within a run: each has another.
public typealias PermitNumber = Int64

/// How a lease stands to others of the same lock.
public enum LeaseMode: Hashable, Sendable, Codable {
    case exclusive
    /// A reader.
    case shared
    /// One of so many places of a semaphore.
    case permits(Int)
}

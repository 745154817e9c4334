public import InterlockCore

/// One thing that happened in a run. A history is a sequence of these in the order of `at`.
///
/// A client has at most one operation under way: its next `ended` belongs to its last `invoked`.
public struct HistoryEvent: Hashable, Sendable, Codable {
    /// On the monotonic clock that all processes of this machine share; in a simulation on the world's.
    public var at: Instant
    public var what: What

    public enum What: Hashable, Sendable, Codable {
        /// A client asks a sidecar (its number in the fleet) for something. Recorded *before* the request leaves.
        case invoked(client: Int, sidecar: Int, Operation)
        /// Recorded *after* the answer was read.
        case ended(client: Int, OperationEnding)
        /// A write of the resource that a lock guards, with the writer's fence, and whether the resource took it. A lease that
        /// is over may still write: the resource must refuse it once a later grant has written.
        case wrote(client: Int, lock: Int, lease: LeaseID, fence: Int64, isAccepted: Bool)
        /// A sidecar's event stream said how a breaker stands: from now on that sidecar acts on it. `until` is on this history's
        /// clock, as far as it can be told: before it an open breaker stays open by itself.
        case breakerSeen(sidecar: Int, service: Int, state: BreakerSnapshot.State, generation: Int64, until: Instant?)
        /// The link of a lease to its client's connection has changed. While it stands a sidecar extends the lease; afterwards it
        /// lasts for its length at most.
        case linked(client: Int, lock: Int, lease: LeaseID, ttl: Int64, LinkChange)
        /// An operator was told that the breaker's state is forced until then; without a state: that it no longer is.
        case forced(service: Int, state: BreakerSnapshot.Forced?, until: Instant?)
        /// A fault begins. `fault` numbers it within the run.
        case faultBegan(fault: Int, FaultKind, sidecar: Int?)
        /// What was broken is whole again: everything must have recovered a stated time later.
        case faultEnded(fault: Int)
    }

    public init(at: Instant, _ what: What) {
        self.at = at
        self.what = what
    }
}

/// What becomes of the link between a lease and its client's connection.
public enum LinkChange: String, Hashable, Sendable, Codable {
    case began
    /// The client has closed the connection: it does not believe in the lease any more.
    case left
    /// The connection was lost, or the client was told that the lease is.
    case lost
}

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

/// How an operation ended, as its client saw it.
public enum OperationEnding: Hashable, Sendable, Codable {
    /// A lease, a renewal, a release, a taken limit, a permit, a report that counted.
    case done(Success)
    /// The sidecar said no: the lock is held, the lease is lost, the limit is used up, the breaker is open.
    case refused(Refusal)
    /// An error that says that nothing was done: unavailable, invalid.
    case failed(code: String)
    /// No answer: it may have been carried out, or may yet be. Never counted as failed.
    case unknown(reason: String)

    /// The reason of an operation whose client went away itself: that says nothing of its sidecar.
    public static let vanished = "vanished"
    /// Likewise, of one who will not ask for it again: its sidecar gives back what it is granted for it.
    public static let abandoned = "abandoned"

    /// Whether it may have been carried out all the same, or may yet be: an error, too, may come from waiting for an answer in
    /// vain.
    package var isDoubtful: Bool {
        switch self {
        case .unknown, .failed: true
        case .done, .refused: false
        }
    }
}

/// What was answered to an operation that was carried out.
public enum Success: Hashable, Sendable, Codable {
    /// `validFor`: in ms. The client believes in the lease until so long after it *asked* for it: when the
    /// sidecar granted it meanwhile, no client can know.
    case granted(lease: LeaseID, fence: Int64, validFor: Int64)
    /// `validFor` in ms, counted likewise.
    case renewed(validFor: Int64)
    case released
    /// The window that binds: its limit, what is left of it, and in how many ms it is whole again.
    case taken(limit: Int64, remaining: Int64, resetAfter: Int64)
    /// `state` is the breaker's, as the sidecar acts on it.
    case permitted(PermitNumber, state: BreakerSnapshot.State)
    case reported(state: BreakerSnapshot.State)
    /// The upstream's answer came through the proxy.
    case passed(status: Int)
}

/// Why the sidecar said no.
public enum Refusal: Hashable, Sendable, Codable {
    /// The lock is held by another.
    case held
    /// The lease is no longer that token's.
    case lost
    /// A limit is used up; in ms, negative when it can never be granted.
    case limited(retryAfter: Int64)
    /// The breaker is open; in ms.
    case open(retryAfter: Int64)
    /// Too many calls are under way, or wait.
    case busy(retryAfter: Int64)
    /// Anything else that says no: its first word.
    case other(String)

    /// As reports name it.
    public var name: String {
        switch self {
        case .held: "held"
        case .lost: "lost"
        case .limited: "limited"
        case .open: "open"
        case .busy: "busy"
        case .other(let word): word
        }
    }
}

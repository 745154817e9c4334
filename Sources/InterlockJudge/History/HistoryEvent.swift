package import InterlockCore

/// One event of a run. A history is a sequence of events, ordered by `at`.
///
/// A client has at most one operation under way: its next `ended` belongs to its last `invoked`.
package struct HistoryEvent: Hashable, Sendable, Codable {
    /// On the machine's monotonic clock, or on a simulated world's clock.
    package var at: Instant
    package var what: What

    package enum What: Hashable, Sendable, Codable {
        /// A client asks a sidecar (its number in the fleet) for something. Recorded *before* the request leaves.
        case invoked(client: Int, sidecar: Int, Operation)
        /// Recorded *after* the answer was read.
        case ended(client: Int, OperationEnding)
        /// A write to the resource that a lock guards, with the writer's fence, and whether the resource accepted it. A holder may
        /// write after its lease has ended; the resource must refuse that once a later holder has written.
        case wrote(client: Int, lock: Int, lease: LeaseID, fence: Int64, isAccepted: Bool)
        /// A sidecar's event stream reported a breaker's state. From now on that sidecar acts on it. An open breaker stays open at
        /// least until `until`, converted to this history's clock.
        case breakerSeen(sidecar: Int, service: Int, state: BreakerSnapshot.State, generation: Int64, until: Instant?)
        /// The link between a lease and its client's connection changed. A sidecar extends a linked lease. After the link ends
        /// the lease lasts for at most its TTL.
        case linked(client: Int, lock: Int, lease: LeaseID, ttl: Int64, LinkChange)
        /// An operator was told that a breaker's state is forced until `until`; without a state, that it is no longer forced.
        case forced(service: Int, state: BreakerSnapshot.Forced?, until: Instant?)
        /// A fault begins. `fault` is its number in the run.
        case faultBegan(fault: Int, FaultKind, sidecar: Int?)
        /// A fault ends. Everything must recover within the stated time.
        case faultEnded(fault: Int)
    }

    package init(at: Instant, _ what: What) {
        self.at = at
        self.what = what
    }
}

/// What happens to the link between a lease and its client's connection.
package enum LinkChange: String, Hashable, Sendable, Codable {
    case began
    /// The client closed the connection and no longer believes in the lease.
    case left
    /// The connection was lost, or the client was told that the lease is lost.
    case lost
}

/// What a client asks of a sidecar. Locks and services are numbered within the run.
package enum Operation: Hashable, Sendable, Codable {
    /// `LOCK.ACQUIRE` for `ttl` ms, waiting for at most `wait` ms. When one call takes several locks, each is an operation of
    /// its own with its own client number.
    case acquire(lock: Int, mode: LeaseMode, ttl: Int64, wait: Int64, isJoint: Bool = false)
    /// `LOCK.RENEW` of the client's lease for `ttl` ms.
    case renew(lock: Int, lease: LeaseID, ttl: Int64)
    /// `LOCK.RELEASE`. The client stops believing in the lease as soon as it asks.
    case release(lock: Int, lease: LeaseID)
    /// `LIMIT.TAKE`.
    case take(service: Int, cost: Int64, subject: Int?, wait: Int64)
    /// `PERMIT.ACQUIRE`.
    case permit(service: Int, subject: Int? = nil, wait: Int64)
    /// `PERMIT.REPORT` of a permit. The call is over as soon as the client reports.
    case report(service: Int, permit: PermitNumber, isOK: Bool)
    /// A request through the guarded proxy.
    case proxied(service: Int)

    /// The kind that it is counted as.
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

    /// The service that the operation uses.
    package var service: Int? {
        switch self {
        case .acquire, .renew, .release: nil
        case .take(let service, _, _, _), .permit(let service, _, _), .report(let service, _, _), .proxied(let service): service
        }
    }

    /// The longest time that it may wait for its turn, in ms.
    package var wait: Int64 {
        switch self {
        case .acquire(_, _, _, let wait, _), .take(_, _, _, let wait), .permit(_, _, let wait): wait
        case .renew, .release, .report, .proxied: 0
        }
    }
}

/// The kinds of operations as reports name them.
package enum OperationKind: String, Hashable, Sendable, Codable, CaseIterable {
    case acquire, renew, release, take, permit, report
    case proxied = "proxy"
}

/// The number of a lease in a run. Each grant has its own.
package typealias LeaseID = Int64

/// The number of a permit in a run. Each permit has its own.
package typealias PermitNumber = Int64

/// How a lease coexists with other leases of its lock.
package enum LeaseMode: Hashable, Sendable, Codable {
    case exclusive
    /// A reader.
    case shared
    /// One of this many places of a semaphore.
    case permits(Int)
}

/// How an operation ended for its client.
package enum OperationEnding: Hashable, Sendable, Codable {
    /// The sidecar did what was asked.
    case done(Success)
    /// The sidecar refused: the lock is held, the lease is lost, the limit is used up, the breaker is open.
    case refused(Refusal)
    /// An error which says that nothing was done, such as "unavailable" or "invalid".
    case failed(code: String)
    /// No answer. It may have been carried out, or may yet be. Never counted as failed.
    case unknown(reason: String)

    /// The reason when the client itself went away. It says nothing about the sidecar.
    package static let vanished = "vanished"
    /// Like `vanished`, for a client that will not ask again: the sidecar gives back what it is granted for it. A release was sent
    /// before the client closed, and is carried out.
    package static let abandoned = "abandoned"

    /// Whether it may have been carried out, or may yet be. That includes errors, because an error may come from a timeout.
    package var isDoubtful: Bool {
        switch self {
        case .unknown, .failed: true
        case .done, .refused: false
        }
    }
}

/// The answer to an operation that was carried out.
package enum Success: Hashable, Sendable, Codable {
    /// `validFor` in ms, counted from the *request*: a client cannot know when the sidecar granted the lease.
    case granted(lease: LeaseID, fence: Int64, validFor: Int64)
    /// `validFor` in ms, counted likewise.
    case renewed(validFor: Int64)
    case released
    /// The window that limits most: its limit, what remains, and in how many ms it is full again.
    case taken(limit: Int64, remaining: Int64, resetAfter: Int64)
    /// `state` is the breaker's state as the sidecar sees it.
    case permitted(PermitNumber, state: BreakerSnapshot.State)
    case reported(state: BreakerSnapshot.State)
    /// The upstream answered through the proxy.
    case passed(status: Int)
}

/// Why the sidecar refused.
package enum Refusal: Hashable, Sendable, Codable {
    /// Another client holds the lock.
    case held
    /// The token no longer holds the lease.
    case lost
    /// A limit is used up. In ms; negative if the call can never be granted.
    case limited(retryAfter: Int64)
    /// The breaker is open. In ms.
    case open(retryAfter: Int64)
    /// Too many calls are under way or waiting.
    case busy(retryAfter: Int64)
    /// Any other refusal: its first word.
    case other(String)

    /// The refusal as reports name it.
    package var name: String {
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

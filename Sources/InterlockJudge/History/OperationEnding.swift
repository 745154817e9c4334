public import InterlockCore

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

/// What `acquire.lua` and `share.lua` reply.
enum AcquireReply: Hashable {
    case granted(fence: Int64, group: String?)
    /// For the same owner.
    case extended(fence: Int64, group: String?)
    /// `ttl` in ms, -1: without end or unknown; `place` in the queue, -1: none.
    case held(ttl: Int64, place: Int64)
    /// As a semaphore with so many places; 0: by readers; -1: by one holder.
    case heldOtherwise(places: Int64)
}

/// What `release.lua` replies.
enum ReleaseReply: Hashable {
    /// 0 or -1.
    case refused(TokenStanding)
    case freed
    /// `isFirst`: this sidecar's waiters are next.
    case freedForOthers(isFirst: Bool)
    case passedOn(fence: Int64, beginsTurn: Bool)
}

/// Whether a token holds a lock.
enum TokenStanding: Int64, Hashable {
    case holds = 1
    case lost = 0
    /// The lock is held by a group, whose holders it does not name.
    case perhapsInGroup = -1
}

/// What the scripts are told of a sidecar's ticket.
struct LockTicket: Hashable {
    var token: String
    /// For how many ms the sidecar waits when the asker is refused.
    var lifetime: Int64
    /// Others wait behind the asker.
    var hasOthers: Bool

    var lifetimeOfOthers: Int64 { hasOthers ? lifetime : 0 }
}

/// The next holder that a release names.
struct LockSuccessor: Hashable {
    var token: String
    var ttl: Int64
    var goesOn: Bool
    var ticket: LockTicket
}

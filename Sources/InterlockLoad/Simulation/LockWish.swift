internal import InterlockCore

/// A caller's wish for a lock, from the call to its answer: `LockWaiter`.
final class LockWish {
    enum Standing {
        case waiting
        /// It has its answer, or nobody wants it any more: what is still granted to it goes to the next.
        case left
        /// The lock is its, or is being handed to it.
        case served
    }

    /// What became of it.
    enum Answer {
        case granted(LeaseGrant)
        case held
        case failed(code: String)
    }

    let id: LockQueue.WaiterID
    let lock: SimulatedLock
    let mode: LockMode
    let ttl: Int64
    let wait: Int64
    let token: String
    /// Its owner chose the token.
    let isOwners: Bool
    let answer: (Answer) -> Bool
    let startedAt: Instant
    var standing = Standing.waiting
    /// Something that could have granted it the lock has no answer.
    var mayHold = false
    var timeout: SimulatedWorld.EventID?

    init(
        id: LockQueue.WaiterID, lock: SimulatedLock, mode: LockMode, ttl: Int64, wait: Int64, token: String, isOwners: Bool,
        startedAt: Instant, answer: @escaping (Answer) -> Bool
    ) {
        self.id = id
        self.lock = lock
        self.mode = mode
        self.ttl = ttl
        self.wait = wait
        self.token = token
        self.isOwners = isOwners
        self.startedAt = startedAt
        self.answer = answer
    }
}

/// What is handed out.
struct LeaseGrant {
    var token: String
    var fence: Int64
    var validFor: Int64
    /// When it is over for its holder, as the sidecar has it.
    var deadline: Instant
    /// What the lock's key holds while several hold the lock; `nil`: the token.
    var group: String?
}

internal import FoundationEssentials
internal import Hiredis
internal import InterlockCore

/// One lock request, from the call to its answer.
final class LockWaiter {
    enum Standing {
        case waiting
        /// It has its answer, or nobody wants it any more: what is still granted to it goes to the next.
        case left
        /// The lock is its, or is being handed to it.
        case served
    }

    let id: LockQueue.WaiterID
    let request: LockRequest
    let token: String
    let completion: Completion<LockAnswer>
    let startedAt: Instant
    var standing = Standing.waiting
    /// Something that could have granted it the lock has no answer.
    var mayHold = false
    /// Its wait is over, and what is under way for it is not: that decides its answer.
    var isOverdue = false
    var timeout: Deadlines.Entry?

    init(
        id: LockQueue.WaiterID, request: LockRequest, token: String, completion: Completion<LockAnswer>, startedAt: Instant
    ) {
        self.id = id
        self.request = request
        self.token = token
        self.completion = completion
        self.startedAt = startedAt
    }
}

extension CoordinatorRuntime {
    /// The token that its owner chose, or one that nobody has ever had.
    func token(for request: LockRequest) -> String {
        request.owner ?? OwnerToken.make(label: request.label ?? host, random: entropy.drawPair())
    }
}

/// The waiters for one lock in this sidecar, with their ticket for Redis.
final class LocalQueue {
    /// Rises with the queues' openings.
    let number: UInt64
    let name: String
    /// Who was served here last: while it holds the lock it is this sidecar's turn.
    var holder: String?
    /// Why the last attempt, or release that named a waiter, has no answer; `nil`: it has one.
    var failure: RedisError?
    /// Stands in Redis for all who wait here.
    let ticket: String
    var decisions = LockQueue()
    var timer: Deadlines.Entry?
    /// Those who wait here under a token that their owner chose: a call that was sent twice waits twice.
    private var byOwner: [ExactText: [LockWaiter]] = [:]

    init(number: UInt64, name: String, ticket: String) {
        self.number = number
        self.name = name
        self.ticket = ticket
    }

    func entered(_ waiter: LockWaiter) {
        guard waiter.request.owner != nil else { return }
        byOwner[ExactText(waiter.token), default: []].append(waiter)
    }

    func left(_ waiter: LockWaiter) {
        guard waiter.request.owner != nil, let mates = byOwner.removeValue(forKey: ExactText(waiter.token)) else { return }
        let others = mates.filter { $0 !== waiter }
        if !others.isEmpty { byOwner[ExactText(waiter.token)] = others }
    }

    /// The other copies of its owner's call that wait here, in the order in which they came.
    func copies(of waiter: LockWaiter) -> [LockWaiter] {
        guard waiter.request.owner != nil else { return [] }
        return (byOwner[ExactText(waiter.token)] ?? []).filter { $0 !== waiter && $0.request.mode == waiter.request.mode }
    }

    /// An attempt or a release under way may grant one of them the lock.
    func isAnythingUnderWay(for waiters: [LockWaiter]) -> Bool {
        waiters.contains { decisions.isAttempting($0.id) || decisions.isSuccessor($0.id) }
    }

    /// The ticket as scripts take it: it outlives the waits, so that a sidecar that is busy for a moment keeps its place.
    func ticket(hasOthers: Bool, now: Instant) -> AcquireScript.Ticket {
        let patience = decisions.latestDeadline.millisecondsRoundedUp(since: now)
        return AcquireScript.Ticket(
            token: ticket, lifetime: max(patience, 2 * LockQueue.recheckMilliseconds), hasOthers: hasOthers)
    }
}

/// What a script tells a sidecar that waits for a lock. A message is a hint: it may be lost, and what it says may be over.
/// It goes to one sidecar, which lives in one database, and tickets are used once: it needs no further address.
struct WakeMessage: Codable {
    enum What: String, Codable {
        /// Its turn has come: its ticket stands in the lock until it is claimed or the claim window is over.
        case turn
        /// Another's turn has come, and this sidecar's is next: should the other be dead, it takes over.
        case first
        /// There may be room for one more.
        case look
        /// Somebody looks at the lock: how many wait here?
        case count
    }

    var v: Int
    /// The name, behind `locks.key_prefix` when there is one.
    var lock: String
    var ticket: String
    var what: What

    init?(_ payload: [UInt8]) {
        guard let message = try? JSONDecoder().decode(Self.self, from: Data(payload)), message.v == 1 else { return nil }
        self = message
    }
}

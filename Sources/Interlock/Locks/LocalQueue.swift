internal import FoundationEssentials
internal import InterlockCore
internal import RedisClient

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

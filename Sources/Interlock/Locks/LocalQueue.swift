internal import FoundationEssentials
internal import InterlockCore
internal import RedisClient

/// The waiters for one lock in this sidecar, with their ticket for Redis.
final class LocalQueue {
    /// Increases with each new queue.
    let number: UInt64
    let name: String
    /// The token that was last served from this queue. While it holds the lock, it is this sidecar's turn.
    var holder: String?
    /// The error of the last attempt, or of the last release that named a successor; `nil` if it was answered.
    var failure: RedisError?
    /// The entry in Redis that stands for all local waiters.
    let ticket: String
    var decisions = LockQueue()
    var timer: Deadlines.Entry?
    /// The local waiters whose owner chose the token. A call that was sent twice waits twice.
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
        guard waiter.request.owner != nil, let copies = byOwner.removeValue(forKey: ExactText(waiter.token)) else { return }
        let others = copies.filter { $0 !== waiter }
        if !others.isEmpty { byOwner[ExactText(waiter.token)] = others }
    }

    /// Returns the other local copies of the same call of an owner, in the order of their arrival.
    func copies(of waiter: LockWaiter) -> [LockWaiter] {
        guard waiter.request.owner != nil else { return [] }
        return (byOwner[ExactText(waiter.token)] ?? []).filter { $0 !== waiter && $0.request.mode == waiter.request.mode }
    }

    /// Returns whether an attempt or a release in progress may grant the lock to one of these waiters.
    func hasCommandInFlight(for waiters: [LockWaiter]) -> Bool {
        waiters.contains { decisions.isAttempting($0.id) || decisions.isSuccessor($0.id) }
    }

    /// Returns the ticket for a script. It outlives the waits, so that a sidecar keeps its position while it is briefly
    /// busy.
    func ticket(hasOthers: Bool, now: Instant) -> AcquireScript.Ticket {
        let maximumWait = decisions.latestDeadline.millisecondsRoundedUp(since: now)
        return AcquireScript.Ticket(
            token: ticket, lifetime: max(maximumWait, 2 * LockQueue.recheckMilliseconds), hasOthers: hasOthers)
    }
}

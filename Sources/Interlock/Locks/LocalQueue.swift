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
    /// The error of the last attempt, or of the last release that named a successor; `nil` if Redis answered it.
    var failure: RedisError?
    /// The entry in the queue in Redis, for all local waiters together.
    let ticket: String
    var machine = LockQueue()
    var timer: Deadlines.Entry?
    /// The local waiters whose owner chose the token. If an owner repeats a call, both copies wait.
    private var byOwner: [ExactText: [LockWaiter]] = [:]

    init(number: UInt64, name: String, ticket: String) {
        self.number = number
        self.name = name
        self.ticket = ticket
    }

    /// Adds a waiter that has joined the queue to the copies of its call.
    func add(_ waiter: LockWaiter) {
        guard waiter.request.owner != nil else { return }
        byOwner[ExactText(waiter.token), default: []].append(waiter)
    }

    /// Removes a waiter that is no longer in the queue from the copies of its call.
    func remove(_ waiter: LockWaiter) {
        guard waiter.request.owner != nil, let copies = byOwner.removeValue(forKey: ExactText(waiter.token)) else { return }
        let remaining = copies.filter { $0 !== waiter }
        if !remaining.isEmpty { byOwner[ExactText(waiter.token)] = remaining }
    }

    /// Returns the other local copies of the same call of an owner, in the order of their arrival.
    func copies(of waiter: LockWaiter) -> [LockWaiter] {
        guard waiter.request.owner != nil else { return [] }
        return (byOwner[ExactText(waiter.token)] ?? []).filter { $0 !== waiter && $0.request.mode == waiter.request.mode }
    }

    /// Returns whether an attempt or a release in progress may grant the lock to one of these waiters.
    func hasCommandInFlight(for waiters: [LockWaiter]) -> Bool {
        waiters.contains { machine.isAttempting($0.id) || machine.isSuccessor($0.id) }
    }

    /// Returns the ticket for a script. The ticket outlives the waits, so that a sidecar that is busy for a moment
    /// keeps its position.
    func ticket(hasOthers: Bool, now: Instant) -> AcquireScript.Ticket {
        let maximumWaitMilliseconds = machine.latestDeadline.millisecondsRoundedUp(since: now)
        return AcquireScript.Ticket(
            token: ticket, lifetimeMilliseconds: max(maximumWaitMilliseconds, 2 * LockQueue.recheckMilliseconds),
            hasOthers: hasOthers)
    }
}

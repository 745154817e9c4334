internal import InterlockCore

/// The waiters for one lock in one sidecar: `LocalQueue`.
final class LocalLockQueue {
    let lock: SimulatedLock
    /// Who was served here last: while it holds the lock it is this sidecar's turn.
    var holder: String?
    /// The last attempt has no answer.
    var hasFailed = false
    /// Stands in Redis for all who wait here.
    let ticket: String
    var decisions = LockQueue()
    var timer: SimulatedWorld.EventID?

    init(lock: SimulatedLock, ticket: String) {
        self.lock = lock
        self.ticket = ticket
    }

    /// The ticket as scripts take it: it outlives the waits, so that a sidecar that is busy for a moment keeps its place.
    func ticket(hasOthers: Bool, now: Instant) -> LockTicket {
        let patience = decisions.latestDeadline.millisecondsRoundedUp(since: now)
        return LockTicket(
            token: ticket, lifetime: max(patience, 2 * LockQueue.recheckMilliseconds), hasOthers: hasOthers)
    }
}

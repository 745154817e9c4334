internal import DequeModule

/// The waiters for one lock within one sidecar, served first come, first served, and this sidecar's turn among the
/// other sidecars that wait for the lock.
///
/// While a call waits here, this sidecar has a ticket in Redis. When the sidecar's turn comes, the first waiter, the
/// head, claims the lock. A release through this sidecar passes the lock on to the next local waiter, up to
/// `maximumGrantsPerTurn` times while other sidecars wait. A queue exists only while a call waits in it.
package struct LockQueue: Sendable {
    package typealias WaiterID = UInt64

    /// The maximum number of waiters that one turn serves while other sidecars wait.
    package static let maximumGrantsPerTurn = 8
    /// How long a sidecar has to claim the lock in its turn.
    package static let claimWindowMilliseconds: Int64 = 300
    /// The interval between checks of the lock, and so the longest delay that a lost message can cause.
    package static let recheckMilliseconds: Int64 = 5000
    /// The delay before the head retries an attempt that Redis rejected.
    package static let refusedMilliseconds: Int64 = 250
    /// The delay before the first sidecar in the queue checks the lock and has Redis watch it from then on. In a busy
    /// queue the lock changes sooner, so no check is ever made.
    package static let checkMilliseconds: Int64 = 20

    /// A call that waits for the lock.
    package struct Waiter: Equatable, Sendable {
        package var id: WaiterID
        /// The end of the wait.
        package var deadline: Instant

        package init(id: WaiterID, deadline: Instant) {
            self.id = id
            self.deadline = deadline
        }
    }

    /// The caller's next step.
    package enum Action: Equatable, Sendable {
        case none
        /// Run the acquire script for this waiter.
        case attempt(WaiterID)
        /// Call `timerFired` at this time. It replaces any earlier timer.
        case armTimer(Instant)
        /// Ask Redis how long the lock remains held, and have it watch the lock.
        case check
        /// Drop the queue, because no call waits, and remove the ticket from Redis if it may exist.
        case drop(hasTicket: Bool)
    }

    /// The waiter that gets the lock when the current holder releases it through this sidecar: the successor.
    package struct Succession: Equatable, Sendable {
        package var id: WaiterID
        /// Whether the turn may continue although other sidecars wait.
        package var continuesTurn: Bool
        /// Whether more calls wait here behind the successor.
        package var hasOthers: Bool

        package init(id: WaiterID, continuesTurn: Bool, hasOthers: Bool) {
            self.id = id
            self.continuesTurn = continuesTurn
            self.hasOthers = hasOthers
        }
    }

    private enum State: Equatable, Sendable {
        /// The head waits for its turn.
        case sleeping(wakeUp: WakeUp)
        /// The head's script is in flight.
        case attempting(WaiterID, wokenMeanwhile: Bool)
    }

    /// The action of a sleeping queue when its timer fires.
    private enum WakeUp: Equatable, Sendable {
        case attempt
        case check
    }

    /// A check in flight.
    private struct Check: Equatable {
        /// Whether the lock may be in another state than the check will find, because Redis reported a change
        /// meanwhile.
        var isOutdated = false
    }

    private var waiters: Deque<Waiter> = []
    private var state = State.sleeping(wakeUp: .attempt)
    /// Whether the ticket should be in Redis; a script in flight may have removed it.
    private var hasTicket = false
    /// Whether the last attempt told Redis that no call waits behind its waiter, so that the grant removes the ticket.
    private var isTicketLeaving = false
    /// The number of waiters served in this sidecar's turn; 0 outside its turn.
    private var servedCount = 0
    /// The waiter that a release in flight may pass the lock to.
    private var successor: WaiterID?
    /// The check in flight; `nil` if no check is in flight.
    private var checkInFlight: Check?
    /// The earliest time at which another attempt can succeed, by the reply to the last one; `nil` if unknown. With
    /// several holders it is the end of their first lease, whereas a check reports only the end of the last lease.
    private var nextAttempt: Instant?
    /// The earliest time of the next check.
    private var nextCheck = Instant(nanoseconds: .min)

    package init() {}

    package var count: Int { waiters.count }
    package var head: WaiterID? { waiters.first?.id }

    /// An upper bound on the waiters' deadlines; a waiter that has left may have raised it.
    package private(set) var latestDeadline = Instant(nanoseconds: .min)

    /// Returns whether this waiter's own attempt is in flight. The attempt may give it the lock.
    package func isAttempting(_ id: WaiterID) -> Bool {
        if case .attempting(id, _) = state { true } else { false }
    }

    /// Returns whether a release in flight names this waiter as its successor. The release may give it the lock.
    package func isSuccessor(_ id: WaiterID) -> Bool { successor == id }

    // MARK: Arrival and departure

    /// Adds a waiter at the end.
    package mutating func enqueue(_ waiter: Waiter) -> Action {
        waiters.append(waiter)
        latestDeadline = max(latestDeadline, waiter.deadline)
        // An empty queue has no timer, even if its ticket is still in Redis.
        return nextStep(attemptsImmediately: waiters.count == 1)
    }

    /// Removes a waiter that timed out or disconnected. `wasWaiting` is false if it had already left.
    package mutating func remove(_ id: WaiterID) -> (wasWaiting: Bool, next: Action) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return (false, .none) }
        waiters.remove(at: index)
        return (true, waiters.isEmpty ? nextStep() : .none)
    }

    // MARK: Attempts

    /// Begins the head's attempt.
    /// - Returns: whether calls wait behind the head. The attempt reports this to Redis.
    package mutating func beginAttempt() -> Bool {
        isTicketLeaving = waiters.count < 2
        return !isTicketLeaving
    }

    /// Records that the attempt took the lock, which begins this sidecar's turn. The next waiter sleeps at most until
    /// the lease ends.
    /// - Parameters:
    ///   - ttlMilliseconds: the TTL of the lease, in milliseconds.
    ///   - nextEndMilliseconds: for a lock with several holders, the milliseconds until the first of their leases ends.
    package mutating func attemptGranted(
        _ id: WaiterID, ttlMilliseconds: Int64, nextEndMilliseconds: Int64? = nil, now: Instant
    ) -> Action {
        let isWoken = endAttempt(id)
        waiters.removeAll { $0.id == id }
        servedCount = 1
        hasTicket = !isTicketLeaving
        nextAttempt = nextEndMilliseconds.map { now.advanced(byMilliseconds: max(0, $0) + 1) }
        // The attempt's own script may have sent the wake-up for the next waiter.
        if isWoken, let head = waiters.first { return attempt(head.id) }
        return nextStep(orSleepForMilliseconds: ttlMilliseconds, becameFirst: true, now: now)
    }

    /// Records the reply to an attempt whose waiter had already received the lock from a release through this sidecar.
    package mutating func attemptOvertaken(_ id: WaiterID, now: Instant) -> Action {
        let isWoken = endAttempt(id)
        hasTicket = !isTicketLeaving
        if isWoken, let head = waiters.first { return attempt(head.id) }
        return nextStep(orSleepForMilliseconds: .some(nil), becameFirst: true, now: now)
    }

    /// Records that the attempt found the lock held.
    /// - Parameters:
    ///   - ttlMilliseconds: the milliseconds for which the lock remains held; `nil` for a lock that never expires.
    ///   - position: this sidecar's position in the queue, from 0.
    package mutating func attemptRefused(
        _ id: WaiterID, ttlMilliseconds: Int64?, position: Int?, now: Instant
    ) -> Action {
        let isWoken = endAttempt(id)
        servedCount = 0
        hasTicket = true
        nextAttempt = ttlMilliseconds.map { now.advanced(byMilliseconds: max(0, $0) + 1) }
        if isWoken, let head = waiters.first { return attempt(head.id) }
        return nextStep(orSleepForMilliseconds: ttlMilliseconds, becameFirst: position == 0, now: now)
    }

    /// Records that the attempt ended with an error, which the caller of this method reports to the waiter. Removes the
    /// waiter.
    package mutating func attemptFailed(_ id: WaiterID) -> Action {
        endAttempt(id)
        waiters.removeAll { $0.id == id }
        return nextStep(attemptsImmediately: true)
    }

    /// Records that no reply to the attempt arrived. The head stays, and tries again once Redis is reachable or at the
    /// next recheck.
    /// - Parameter isRefused: whether Redis is known not to have begun the script. The head then tries again soon.
    package mutating func attemptUnanswered(_ id: WaiterID, isRefused: Bool = false, now: Instant) -> Action {
        endAttempt(id)
        // The script may have added the ticket; if not, the next attempt does.
        hasTicket = true
        return nextStep(orSleepForMilliseconds: isRefused ? Self.refusedMilliseconds : .some(nil), now: now)
    }

    /// Ends the attempt.
    /// - Returns: whether a wake-up arrived while the attempt was in flight.
    @discardableResult
    private mutating func endAttempt(_ id: WaiterID) -> Bool {
        guard case .attempting(id, let wokenMeanwhile) = state else { return false }
        state = .sleeping(wakeUp: .attempt)
        return wokenMeanwhile
    }

    // MARK: Releases through this sidecar

    /// Begins a release.
    /// - Returns: the waiter that the release names as its successor; `nil` if no call waits, or if another release in
    ///   flight has already named a successor.
    package mutating func beginRelease() -> Succession? {
        guard successor == nil, let head = waiters.first else { return nil }
        successor = head.id
        let continuesTurn = (1..<Self.maximumGrantsPerTurn).contains(servedCount)
        return Succession(id: head.id, continuesTurn: continuesTurn, hasOthers: waiters.count > 1)
    }

    /// Records that a release passed the lock on to its successor.
    /// - Parameters:
    ///   - beginsTurn: whether the grant begins a new turn of this sidecar.
    ///   - ttlMilliseconds: the TTL of the successor's lease, in milliseconds.
    package mutating func lockPassedOn(
        _ succession: Succession, beginsTurn: Bool, ttlMilliseconds: Int64, now: Instant
    ) -> Action {
        successor = nil
        waiters.removeAll { $0.id == succession.id }
        servedCount = beginsTurn ? 1 : servedCount + 1
        // A continued turn leaves the ticket unchanged. If no other call waits, the release removes it.
        hasTicket = succession.hasOthers && (beginsTurn || hasTicket)
        return nextStep(orSleepForMilliseconds: ttlMilliseconds, becameFirst: true, now: now)
    }

    /// Records that a release named a successor here, but gave the lock to a sidecar that was ahead in the queue.
    package mutating func successorBypassed(becameFirst: Bool, now: Instant) -> Action {
        successor = nil
        servedCount = 0
        hasTicket = true
        return nextStep(orSleepForMilliseconds: .some(nil), becameFirst: becameFirst, now: now)
    }

    /// Records that a release that named a successor had no effect.
    package mutating func releaseFailed() -> Action {
        successor = nil
        return nextStep()
    }

    /// Records that no reply arrived to a release that named a successor. An attempt finds out whether the release
    /// passed the lock on.
    package mutating func releaseUnanswered() -> Action {
        successor = nil
        return waiters.isEmpty ? nextStep() : wake()
    }

    // MARK: Notifications

    /// Wakes the head, because the lock may be free or this sidecar's turn has come.
    package mutating func wake() -> Action {
        switch state {
        case .sleeping:
            guard let head = waiters.first else { return .none }
            return attempt(head.id)
        case .attempting(let id, _):
            state = .attempting(id, wokenMeanwhile: true)
            return .none
        }
    }

    /// Records that this sidecar is next in the queue, while another one holds the lock or is about to claim it.
    package mutating func becameFirst(now: Instant) -> Action {
        guard case .sleeping = state, !waiters.isEmpty else { return .none }
        return scheduleCheck(now: now)
    }

    /// Records that this sidecar is next in the queue, while a semaphore's slot is reserved for another one. The head
    /// tries when the claim window is over.
    package mutating func becameFirstForSlot(now: Instant) -> Action {
        guard case .sleeping = state, !waiters.isEmpty else { return .none }
        return sleep(forMilliseconds: Self.claimWindowMilliseconds, now: now)
    }

    /// Handles Redis's report of a change of the lock.
    package mutating func lockChanged(now: Instant) -> Action {
        if checkInFlight != nil {
            checkInFlight?.isOutdated = true
            return .none
        }
        guard case .sleeping = state, !waiters.isEmpty else { return .none }
        if now >= nextCheck { return check(now: now) }
        state = .sleeping(wakeUp: .check)
        return .armTimer(nextCheck)
    }

    /// The result of a check.
    package enum Finding: Equatable, Sendable {
        case free
        /// Held for `ttlMilliseconds` more; `nil` for a lock that never expires.
        case held(ttlMilliseconds: Int64?)
        /// No reply arrived.
        case unknown
    }

    /// Records the result of the check in flight.
    package mutating func checkEnded(_ finding: Finding, now: Instant) -> Action {
        let isOutdated = checkInFlight?.isOutdated ?? false
        checkInFlight = nil
        guard case .sleeping = state, let head = waiters.first else { return .none }
        switch finding {
        case .free: return attempt(head.id)
        case .held where isOutdated, .unknown where isOutdated:
            state = .sleeping(wakeUp: .check)
            return .armTimer(nextCheck)
        case .held, .unknown:
            if let nextAttempt, nextAttempt <= now { return attempt(head.id) }
            let heldMilliseconds: Int64? = if case .held(let milliseconds) = finding { milliseconds } else { nil }
            return sleep(forMilliseconds: heldMilliseconds, now: now, atMostUntil: nextAttempt)
        }
    }

    /// Handles the timer that `armTimer` set.
    package mutating func timerFired(now: Instant) -> Action {
        guard case .sleeping(let wakeUp) = state, let head = waiters.first else { return .none }
        if wakeUp == .check, checkInFlight != nil { return .none }
        return wakeUp == .check ? check(now: now) : attempt(head.id)
    }

    // MARK: Next step

    /// Drops the queue if it is empty. Otherwise, if there is no ticket, the head tries, which also adds the ticket. If
    /// there is one, the head sleeps.
    /// - Parameter milliseconds: the time to sleep; a wrapped `nil` for a lock that never expires; `nil` to leave the
    ///   timer unchanged.
    private mutating func nextStep(
        attemptsImmediately: Bool = false, orSleepForMilliseconds milliseconds: Int64?? = .none,
        becameFirst: Bool = false,
        now: Instant? = nil
    ) -> Action {
        guard case .sleeping = state else { return .none }
        guard let head = waiters.first else {
            // A release in flight may still name a waiter that has left. The reply to it then drops the queue.
            return successor == nil ? .drop(hasTicket: hasTicket) : .none
        }
        if !hasTicket || attemptsImmediately { return attempt(head.id) }
        guard let milliseconds, let now else { return .none }
        // A check is useless if the lease ends before it.
        if becameFirst, milliseconds.map({ $0 > Self.checkMilliseconds }) ?? true { return scheduleCheck(now: now) }
        return sleep(forMilliseconds: milliseconds, now: now)
    }

    private mutating func attempt(_ id: WaiterID) -> Action {
        nextAttempt = nil
        state = .attempting(id, wokenMeanwhile: false)
        return .attempt(id)
    }

    private mutating func check(now: Instant) -> Action {
        state = .sleeping(wakeUp: .attempt)
        checkInFlight = Check()
        nextCheck = now.advanced(byMilliseconds: Self.checkMilliseconds)
        return .check
    }

    private mutating func scheduleCheck(now: Instant) -> Action {
        state = .sleeping(wakeUp: .check)
        nextCheck = max(nextCheck, now.advanced(byMilliseconds: Self.checkMilliseconds))
        return .armTimer(nextCheck)
    }

    /// Has the head sleep until the lock's key has expired, the next recheck, or `end`, whichever comes first.
    /// - Parameter milliseconds: the lock's TTL; `nil` for a lock that never expires.
    private mutating func sleep(
        forMilliseconds milliseconds: Int64?, now: Instant, atMostUntil end: Instant? = nil
    ) -> Action {
        state = .sleeping(wakeUp: .attempt)
        // Redis deletes a key in the millisecond after its TTL ends.
        let pauseMilliseconds = min(
            milliseconds.map { max(0, $0) + 1 } ?? Self.recheckMilliseconds, Self.recheckMilliseconds)
        let wakeUpAt = now.advanced(byMilliseconds: pauseMilliseconds)
        return .armTimer(end.map { min($0, wakeUpAt) } ?? wakeUpAt)
    }
}

internal import DequeModule

/// The waiters for one lock within one sidecar, first come, first served, and the sidecar's position among the other
/// sidecars that wait for the lock.
///
/// While a call waits here, this sidecar has a ticket in Redis. When its turn comes, the head claims the lock. A
/// release through this sidecar passes the lock on to the next local waiter, up to `maximumGrantsPerTurn` times
/// while other sidecars wait. A queue exists only while a call waits in it.
package struct LockQueue: Sendable {
    package typealias WaiterID = UInt64

    /// The maximum number of waiters that one turn serves while other sidecars wait.
    package static let maximumGrantsPerTurn = 8
    /// How long a sidecar has to claim the lock in its turn.
    package static let claimWindowMilliseconds: Int64 = 300
    /// The maximum delay that a lost message can cause.
    package static let recheckMilliseconds: Int64 = 5000
    /// The delay before the head retries an attempt that Redis refused to serve.
    package static let refusedMilliseconds: Int64 = 250
    /// The delay before the first sidecar in the queue checks the lock and has Redis watch it from then on. In a busy
    /// queue the lock changes sooner, so no check is ever made.
    package static let checkMilliseconds: Int64 = 20

    package struct Waiter: Equatable, Sendable {
        package var id: WaiterID
        /// The end of its wait.
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
        /// Call `timerFired` at this time; replaces any earlier timer.
        case armTimer(Instant)
        /// Ask how long the lock is still held, and have Redis watch it.
        case check
        /// Drop the queue, because no call waits, and remove the ticket from Redis if there may be one.
        case drop(hasTicket: Bool)
    }

    /// The waiter that gets the lock when the current holder releases it through this sidecar.
    package struct Succession: Equatable, Sendable {
        package var id: WaiterID
        /// Whether the turn may continue although other sidecars wait.
        package var continuesTurn: Bool
        /// Whether more calls wait here behind it.
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

    private struct Check: Equatable {
        var isOutdated = false
    }

    private var waiters: Deque<Waiter> = []
    private var state = State.sleeping(wakeUp: .attempt)
    /// Whether the ticket should be in Redis; a script in flight may have removed it.
    private var hasTicket = false
    /// Whether an attempt or release in flight has announced that no call waits behind its waiter.
    private var isTicketLeaving = false
    /// The number of waiters served in this sidecar's turn; 0 if it has no turn.
    private var served = 0
    /// The waiter that a release in flight may pass the lock to.
    private var successor: WaiterID?
    /// The check in flight, and whether the lock has changed since it began, so that its finding may be out of date.
    private var checkInFlight: Check?
    /// The earliest time for another attempt to succeed, as the last attempt reported. With several holders it is the
    /// end of their first lease, whereas a check only reports the end of the last one.
    private var nextAttempt: Instant?
    /// The time before which the lock is not checked again.
    private var nextCheck = Instant(nanoseconds: .min)

    package init() {}

    package var count: Int { waiters.count }
    package var head: WaiterID? { waiters.first?.id }

    /// An upper bound of all waiters' deadlines; waiters that have left may have raised it.
    package private(set) var latestDeadline = Instant(nanoseconds: .min)

    /// Returns whether this waiter's own attempt is in flight, which may grant it the lock.
    package func isAttempting(_ id: WaiterID) -> Bool {
        if case .attempting(id, _) = state { true } else { false }
    }

    /// Returns whether a release in flight names this waiter, which may grant it the lock.
    package func isSuccessor(_ id: WaiterID) -> Bool { successor == id }

    // MARK: Arrival and departure

    /// Adds a waiter at the end.
    package mutating func enqueue(_ waiter: Waiter) -> Action {
        waiters.append(waiter)
        latestDeadline = max(latestDeadline, waiter.deadline)
        // A queue that was empty has no timer, whether or not its ticket is still in Redis.
        return nextStep(attemptsImmediately: waiters.count == 1)
    }

    /// Removes a waiter that timed out or disconnected. `wasWaiting` is false if it had already left.
    package mutating func remove(_ id: WaiterID) -> (wasWaiting: Bool, next: Action) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return (false, .none) }
        waiters.remove(at: index)
        return (true, waiters.isEmpty ? nextStep() : .none)
    }

    // MARK: Attempts

    /// Begins the head's attempt. Returns whether calls wait behind the head, which the attempt reports to Redis.
    package mutating func beginAttempt() -> Bool {
        isTicketLeaving = waiters.count < 2
        return !isTicketLeaving
    }

    /// Records that an attempt granted the lock to `id`, which begins the turn. The next waiter sleeps at most until
    /// the lease ends.
    /// - Parameter nextEnd: for a lock with several holders, the milliseconds until the first of their leases ends.
    package mutating func granted(_ id: WaiterID, ttl: Int64, nextEnd: Int64? = nil, now: Instant) -> Action {
        let isWoken = endAttempt(id)
        waiters.removeAll { $0.id == id }
        served = 1
        hasTicket = !isTicketLeaving
        nextAttempt = nextEnd.map { now.advanced(byMilliseconds: max(0, $0) + 1) }
        // The script that granted this waiter may have sent the wake-up for the next one.
        if isWoken, let head = waiters.first { return attempt(head.id) }
        return nextStep(orSleepFor: ttl, becameFirst: true, now: now)
    }

    /// Records the answer to an attempt whose waiter already had the lock, from a release through this sidecar.
    package mutating func overtaken(_ id: WaiterID, now: Instant) -> Action {
        let isWoken = endAttempt(id)
        hasTicket = !isTicketLeaving
        if isWoken, let head = waiters.first { return attempt(head.id) }
        return nextStep(orSleepFor: .some(nil), becameFirst: true, now: now)
    }

    /// Records that the lock is held for `ttl` more milliseconds, or without end if `ttl` is `nil`.
    /// - Parameter position: this sidecar's position in the queue, from 0.
    package mutating func refused(_ id: WaiterID, ttl: Int64?, position: Int?, now: Instant) -> Action {
        let isWoken = endAttempt(id)
        served = 0
        hasTicket = true
        nextAttempt = ttl.map { now.advanced(byMilliseconds: max(0, $0) + 1) }
        if isWoken, let head = waiters.first { return attempt(head.id) }
        return nextStep(orSleepFor: ttl, becameFirst: position == 0, now: now)
    }

    /// Removes a waiter whose attempt failed and whose caller has been answered.
    package mutating func failed(_ id: WaiterID) -> Action {
        endAttempt(id)
        waiters.removeAll { $0.id == id }
        return nextStep(attemptsImmediately: true)
    }

    /// Records that the connection was lost before the answer came. The head stays, and tries again when Redis is back
    /// or at the next recheck, or soon if Redis did not begin the script (`isRefused`).
    package mutating func unanswered(_ id: WaiterID, isRefused: Bool = false, now: Instant) -> Action {
        endAttempt(id)
        // The script may have added the ticket; if not, the next attempt does.
        hasTicket = true
        return nextStep(orSleepFor: isRefused ? Self.refusedMilliseconds : .some(nil), now: now)
    }

    /// Ends the attempt. Returns whether a wake-up came while it was in flight.
    @discardableResult
    private mutating func endAttempt(_ id: WaiterID) -> Bool {
        guard case .attempting(id, let wokenMeanwhile) = state else { return false }
        state = .sleeping(wakeUp: .attempt)
        return wokenMeanwhile
    }

    // MARK: Releases through this sidecar

    /// Begins a release. Returns the waiter to pass the lock on to; `nil` if no call waits or another release has named
    /// one.
    package mutating func beginRelease() -> Succession? {
        guard successor == nil, let head = waiters.first else { return nil }
        successor = head.id
        let continuesTurn = (1..<Self.maximumGrantsPerTurn).contains(served)
        return Succession(id: head.id, continuesTurn: continuesTurn, hasOthers: waiters.count > 1)
    }

    /// Records that the release passed the lock on to the successor that it named.
    package mutating func passedOn(
        _ succession: Succession, beginsTurn: Bool, ttl: Int64, now: Instant
    ) -> Action {
        successor = nil
        waiters.removeAll { $0.id == succession.id }
        served = beginsTurn ? 1 : served + 1
        // While the turn continues, the ticket stays as it was, unless the last waiter made it unnecessary.
        hasTicket = succession.hasOthers && (beginsTurn || hasTicket)
        return nextStep(orSleepFor: ttl, becameFirst: true, now: now)
    }

    /// Records that the release named a successor, but the lock went to a sidecar that was ahead.
    package mutating func bypassed(becameFirst: Bool, now: Instant) -> Action {
        successor = nil
        served = 0
        hasTicket = true
        return nextStep(orSleepFor: .some(nil), becameFirst: becameFirst, now: now)
    }

    /// Records that the release that named a successor had no effect.
    package mutating func releaseFailed() -> Action {
        successor = nil
        return nextStep()
    }

    /// Records that a release that named a successor went unanswered. An attempt finds out whether it passed the lock
    /// on.
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

    /// Records that this sidecar is next, while another one has the lock or is about to claim it.
    package mutating func becameFirst(now: Instant) -> Action {
        guard case .sleeping = state, !waiters.isEmpty else { return .none }
        return planCheck(now: now)
    }

    /// Records that this sidecar is next, while a semaphore's slot is reserved for another one. It tries when the claim
    /// window is over.
    package mutating func becameFirstForSlot(now: Instant) -> Action {
        guard case .sleeping = state, !waiters.isEmpty else { return .none }
        return sleep(ttl: Self.claimWindowMilliseconds, now: now)
    }

    /// Call when Redis reports that the lock has changed.
    package mutating func changed(now: Instant) -> Action {
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
        /// Held for `ttl` milliseconds, or without end if `ttl` is `nil`.
        case held(ttl: Int64?)
        /// No answer came.
        case unknown
    }

    /// Ends the check with its result.
    package mutating func checked(_ finding: Finding, now: Instant) -> Action {
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
            let ttl: Int64? = if case .held(let ttl) = finding { ttl } else { nil }
            return sleep(ttl: ttl, now: now, atMostUntil: nextAttempt)
        }
    }

    /// Runs the action that the timer of `armTimer` was set for.
    package mutating func timerFired(now: Instant) -> Action {
        guard case .sleeping(let wakeUp) = state, let head = waiters.first else { return .none }
        if wakeUp == .check, checkInFlight != nil { return .none }
        return wakeUp == .check ? check(now: now) : attempt(head.id)
    }

    // MARK: Next step

    /// Drops the queue if it is empty. Without a ticket the head tries, which also adds one. Otherwise the head sleeps
    /// for `ttl`, if given.
    private mutating func nextStep(
        attemptsImmediately: Bool = false, orSleepFor ttl: Int64?? = .none, becameFirst: Bool = false, now: Instant? = nil
    ) -> Action {
        guard case .sleeping = state else { return .none }
        guard let head = waiters.first else {
            // A release in flight may still name a waiter that has left, and its answer drops the queue.
            return successor == nil ? .drop(hasTicket: hasTicket) : .none
        }
        if !hasTicket || attemptsImmediately { return attempt(head.id) }
        guard let ttl, let now else { return .none }
        // A lease that ends before the check needs none, because its own timer fires first.
        if becameFirst, ttl.map({ $0 > Self.checkMilliseconds }) ?? true { return planCheck(now: now) }
        return sleep(ttl: ttl, now: now)
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

    private mutating func planCheck(now: Instant) -> Action {
        state = .sleeping(wakeUp: .check)
        nextCheck = max(nextCheck, now.advanced(byMilliseconds: Self.checkMilliseconds))
        return .armTimer(nextCheck)
    }

    private mutating func sleep(ttl: Int64?, now: Instant, atMostUntil end: Instant? = nil) -> Action {
        state = .sleeping(wakeUp: .attempt)
        // Redis deletes a key in the millisecond after its TTL ends.
        let pause = min(ttl.map { max(0, $0) + 1 } ?? Self.recheckMilliseconds, Self.recheckMilliseconds)
        let instant = now.advanced(byMilliseconds: pause)
        return .armTimer(end.map { min($0, instant) } ?? instant)
    }
}

internal import DequeModule

/// The waiters for one lock within one sidecar, first come, first served, and the sidecar's place among the others that
/// wait for it.
///
/// While somebody waits here a ticket of this sidecar stands in Redis. When its turn comes the head claims the lock; a
/// release through this sidecar passes it on to the next waiter here, up to `longestTurn` times while others wait. A queue
/// exists only while somebody waits.
package struct LockQueue: Sendable {
    package typealias WaiterID = UInt64

    /// The most waiters that one turn serves while other sidecars wait.
    package static let longestTurn = 8
    /// For how long a sidecar whose turn has come keeps it without claiming it.
    package static let claimWindowMilliseconds: Int64 = 300
    /// The longest that lost messages can cost.
    package static let recheckMilliseconds: Int64 = 5000
    /// After so long the head tries again that Redis has refused to serve.
    package static let refusedMilliseconds: Int64 = 250
    /// The first in the queue looks at the lock so long after it last knew how it stood, and has Redis watch it from then
    /// on: in a busy queue nobody ever looks.
    package static let lookMilliseconds: Int64 = 20

    package struct Waiter: Equatable, Sendable {
        package var id: WaiterID
        /// Until when it is willing to wait.
        package var deadline: Instant

        package init(id: WaiterID, deadline: Instant) {
            self.id = id
            self.deadline = deadline
        }
    }

    /// What the caller is to do next.
    package enum Action: Equatable, Sendable {
        case none
        /// Run the acquire script for this waiter.
        case attempt(WaiterID)
        /// Call `timerFired` then; it replaces any timer before.
        case armTimer(Instant)
        /// Ask how long the lock is still held, and have Redis watch it.
        case look
        /// Nobody waits: drop the queue, and take the ticket out of Redis when it may stand there.
        case drop(hasTicket: Bool)
    }

    /// Who is to have the lock when the present holder releases it through this sidecar.
    package struct Succession: Equatable, Sendable {
        package var id: WaiterID
        /// The turn may go on although other sidecars wait.
        package var goesOn: Bool
        /// More wait here behind it.
        package var hasOthers: Bool

        package init(id: WaiterID, goesOn: Bool, hasOthers: Bool) {
            self.id = id
            self.goesOn = goesOn
            self.hasOthers = hasOthers
        }
    }

    private enum State: Equatable, Sendable {
        /// The head waits for its turn.
        case resting(wakeUp: WakeUp)
        /// The head's script is under way.
        case attempting(WaiterID, wokenMeanwhile: Bool)
    }

    /// What a resting queue does when its timer fires.
    private enum WakeUp: Equatable, Sendable {
        case attempt
        case look
    }

    private struct Look: Equatable {
        var isOutdated = false
    }

    private var waiters: Deque<Waiter> = []
    private var state = State.resting(wakeUp: .attempt)
    /// The ticket stands in Redis, as far as is known; a script under way may have taken it off.
    private var hasTicket = false
    /// An attempt or release under way said that nobody waits behind its waiter.
    private var isTicketLeaving = false
    /// How many this sidecar has served in its turn; 0: it is not its turn.
    private var served = 0
    /// The waiter that a release under way may pass the lock to.
    private var successor: WaiterID?
    /// A look is under way, and whether the lock was changed since it began: what it finds may be older.
    private var lookUnderWay: Look?
    /// When it may be worth another attempt, as the last one was told: a look knows no earlier end than the lock's own.
    private var nextAttempt: Instant?
    /// No look before this time.
    private var nextLook = Instant(nanoseconds: .min)

    package init() {}

    package var count: Int { waiters.count }
    /// Who is next.
    package var head: WaiterID? { waiters.first?.id }

    /// No waiter of this queue waits longer than this; it may be later than the last of those who still do.
    package private(set) var latestDeadline = Instant(nanoseconds: .min)

    /// A script under way may grant it the lock: the attempt of this waiter.
    package func isAttempting(_ id: WaiterID) -> Bool {
        if case .attempting(id, _) = state { true } else { false }
    }

    /// A script under way may grant it the lock: a release that names this waiter.
    package func isSuccessor(_ id: WaiterID) -> Bool { successor == id }

    // MARK: Coming and going

    /// A new waiter takes its place at the end.
    package mutating func enqueue(_ waiter: Waiter) -> Action {
        waiters.append(waiter)
        latestDeadline = max(latestDeadline, waiter.deadline)
        // A queue that was empty has no timer, whatever became of its ticket.
        return settle(attemptsAtOnce: waiters.count == 1)
    }

    /// A waiter gives up, timed out or disconnected. `wasWaiting` is false when it had already left.
    package mutating func remove(_ id: WaiterID) -> (wasWaiting: Bool, next: Action) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return (false, .none) }
        waiters.remove(at: index)
        return (true, waiters.isEmpty ? settle() : .none)
    }

    // MARK: Attempts

    /// Whether others wait behind the head: what its attempt is to say.
    package mutating func beginAttempt() -> Bool {
        isTicketLeaving = waiters.count < 2
        return !isTicketLeaving
    }

    /// An attempt's script granted the lock to `id`: the turn begins. The next rests until the lease is over at the latest;
    /// `nextEnd`: of a lock that several hold, in how many milliseconds the first of their leases ends.
    package mutating func granted(_ id: WaiterID, ttl: Int64, nextEnd: Int64? = nil, now: Instant) -> Action {
        let isWoken = endAttempt(id)
        waiters.removeAll { $0.id == id }
        served = 1
        hasTicket = !isTicketLeaving
        nextAttempt = nextEnd.map { now.advanced(byMilliseconds: max(0, $0) + 1) }
        // What woke it may have been meant for the next, by the very script that granted this one.
        if isWoken, let head = waiters.first { return attempt(head.id) }
        return settle(orRestFor: ttl, isFirst: true, now: now)
    }

    /// An attempt was answered whose waiter had the lock already, from a release through this sidecar.
    package mutating func overtaken(_ id: WaiterID, now: Instant) -> Action {
        let isWoken = endAttempt(id)
        hasTicket = !isTicketLeaving
        if isWoken, let head = waiters.first { return attempt(head.id) }
        return settle(orRestFor: .some(nil), isFirst: true, now: now)
    }

    /// The lock is held, for `ttl` more milliseconds (`nil`: without end); `place`: where in the queue this sidecar is.
    package mutating func refused(_ id: WaiterID, ttl: Int64?, place: Int?, now: Instant) -> Action {
        let isWoken = endAttempt(id)
        served = 0
        hasTicket = true
        nextAttempt = ttl.map { now.advanced(byMilliseconds: max(0, $0) + 1) }
        if isWoken, let head = waiters.first { return attempt(head.id) }
        return settle(orRestFor: ttl, isFirst: place == 0, now: now)
    }

    /// The attempt was no good: the waiter has been told, and leaves.
    package mutating func failed(_ id: WaiterID) -> Action {
        endAttempt(id)
        waiters.removeAll { $0.id == id }
        return settle(attemptsAtOnce: true)
    }

    /// The connection went before the answer came: the head stays, and tries again when Redis is back or at the next
    /// recheck; soon if Redis has not begun the script (`isRefused`).
    package mutating func unanswered(_ id: WaiterID, isRefused: Bool = false, now: Instant) -> Action {
        endAttempt(id)
        // The script may have put the ticket there; the next attempt will.
        hasTicket = true
        return settle(orRestFor: isRefused ? Self.refusedMilliseconds : .some(nil), now: now)
    }

    /// Returns whether a wake-up came while the attempt was under way.
    @discardableResult
    private mutating func endAttempt(_ id: WaiterID) -> Bool {
        guard case .attempting(id, let wokenMeanwhile) = state else { return false }
        state = .resting(wakeUp: .attempt)
        return wokenMeanwhile
    }

    // MARK: Releases through this sidecar

    /// A release is about to be sent: who is to have the lock then. `nil`: nobody here, or another release has named one.
    package mutating func beginRelease() -> Succession? {
        guard successor == nil, let head = waiters.first else { return nil }
        successor = head.id
        return Succession(id: head.id, goesOn: (1..<Self.longestTurn).contains(served), hasOthers: waiters.count > 1)
    }

    /// The release passed the lock on to the successor that it named.
    package mutating func passedOn(
        _ succession: Succession, beginsTurn: Bool, ttl: Int64, now: Instant
    ) -> Action {
        successor = nil
        waiters.removeAll { $0.id == succession.id }
        served = beginsTurn ? 1 : served + 1
        // While the turn goes on the ticket is where it was, unless nobody needed it any more.
        hasTicket = succession.hasOthers && (beginsTurn || hasTicket)
        return settle(orRestFor: ttl, isFirst: true, now: now)
    }

    /// The release was carried out and named a successor, but another sidecar was before it.
    package mutating func passedBy(isFirst: Bool, now: Instant) -> Action {
        successor = nil
        served = 0
        hasTicket = true
        return settle(orRestFor: .some(nil), isFirst: isFirst, now: now)
    }

    /// The release that named a successor came to nothing.
    package mutating func releaseFailed() -> Action {
        successor = nil
        return settle()
    }

    /// The release that named a successor has no answer, and may have passed the lock on: an attempt finds that out.
    package mutating func releaseUnanswered() -> Action {
        successor = nil
        return waiters.isEmpty ? settle() : wake()
    }

    // MARK: News

    /// The lock may be free, or it is this sidecar's turn.
    package mutating func wake() -> Action {
        switch state {
        case .resting:
            guard let head = waiters.first else { return .none }
            return attempt(head.id)
        case .attempting(let id, _):
            state = .attempting(id, wokenMeanwhile: true)
            return .none
        }
    }

    /// Another sidecar has the lock or is about to claim it, and this one is next.
    package mutating func isFirst(now: Instant) -> Action {
        guard case .resting = state, !waiters.isEmpty else { return .none }
        return planLook(now: now)
    }

    /// A place of a semaphore is kept for another sidecar, and this one is next: it tries when the claim window is over.
    package mutating func isFirstForPlace(now: Instant) -> Action {
        guard case .resting = state, !waiters.isEmpty else { return .none }
        return rest(ttl: Self.claimWindowMilliseconds, now: now)
    }

    /// Redis says that the lock was changed.
    package mutating func changed(now: Instant) -> Action {
        if lookUnderWay != nil {
            lookUnderWay?.isOutdated = true
            return .none
        }
        guard case .resting = state, !waiters.isEmpty else { return .none }
        if now >= nextLook { return look(now: now) }
        state = .resting(wakeUp: .look)
        return .armTimer(nextLook)
    }

    /// What a look found.
    package enum Finding: Equatable, Sendable {
        case free
        /// Held for so many milliseconds; `nil`: without end.
        case held(ttl: Int64?)
        /// There was no answer.
        case unknown
    }

    /// The look that was asked for is over.
    package mutating func looked(_ finding: Finding, now: Instant) -> Action {
        let isOutdated = lookUnderWay?.isOutdated ?? false
        lookUnderWay = nil
        guard case .resting = state, let head = waiters.first else { return .none }
        switch finding {
        case .free: return attempt(head.id)
        case .held where isOutdated, .unknown where isOutdated:
            state = .resting(wakeUp: .look)
            return .armTimer(nextLook)
        case .held, .unknown:
            if let nextAttempt, nextAttempt <= now { return attempt(head.id) }
            let ttl: Int64? = if case .held(let ttl) = finding { ttl } else { nil }
            return rest(ttl: ttl, now: now, atMostUntil: nextAttempt)
        }
    }

    /// The timer that `armTimer` asked for.
    package mutating func timerFired(now: Instant) -> Action {
        guard case .resting(let wakeUp) = state, let head = waiters.first else { return .none }
        if wakeUp == .look, lookUnderWay != nil { return .none }
        return wakeUp == .look ? look(now: now) : attempt(head.id)
    }

    // MARK: What follows

    /// Nobody waits: drop. No ticket stands: the head tries, which also places it. Else it rests, if it is told how long.
    private mutating func settle(
        attemptsAtOnce: Bool = false, orRestFor ttl: Int64?? = .none, isFirst: Bool = false, now: Instant? = nil
    ) -> Action {
        guard case .resting = state else { return .none }
        guard let head = waiters.first else {
            // What a release under way may still pass on comes back to an empty queue.
            return successor == nil ? .drop(hasTicket: hasTicket) : .none
        }
        if !hasTicket || attemptsAtOnce { return attempt(head.id) }
        guard let ttl, let now else { return .none }
        // A lease that ends before the look is found out about by its own timer.
        if isFirst, ttl.map({ $0 > Self.lookMilliseconds }) ?? true { return planLook(now: now) }
        return rest(ttl: ttl, now: now)
    }

    private mutating func attempt(_ id: WaiterID) -> Action {
        nextAttempt = nil
        state = .attempting(id, wokenMeanwhile: false)
        return .attempt(id)
    }

    private mutating func look(now: Instant) -> Action {
        state = .resting(wakeUp: .attempt)
        lookUnderWay = Look()
        nextLook = now.advanced(byMilliseconds: Self.lookMilliseconds)
        return .look
    }

    private mutating func planLook(now: Instant) -> Action {
        state = .resting(wakeUp: .look)
        nextLook = max(nextLook, now.advanced(byMilliseconds: Self.lookMilliseconds))
        return .armTimer(nextLook)
    }

    private mutating func rest(ttl: Int64?, now: Instant, atMostUntil end: Instant? = nil) -> Action {
        state = .resting(wakeUp: .attempt)
        // A key is gone in the millisecond after its ttl.
        let pause = min(ttl.map { max(0, $0) + 1 } ?? Self.recheckMilliseconds, Self.recheckMilliseconds)
        let instant = now.advanced(byMilliseconds: pause)
        return .armTimer(end.map { min($0, instant) } ?? instant)
    }
}

internal import DequeModule

/// The waiters for one lock within one sidecar, first come, first served. Only the head tries; it tries again when it is
/// woken, when the holder's lease must be over, and every `recheckMilliseconds` in case a wake message was lost.
///
/// A queue exists only while somebody waits.
public struct WaitQueue: Sendable {
    public typealias WaiterID = UInt64

    /// The longest that a lost wake message can cost, and how long a ticket of this sidecar goes unrefreshed.
    public static let recheckMilliseconds: Int64 = 5000

    public struct Waiter: Equatable, Sendable {
        public var id: WaiterID
        /// Until when it is willing to wait.
        public var deadline: Instant

        public init(id: WaiterID, deadline: Instant) {
            self.id = id
            self.deadline = deadline
        }
    }

    /// What the caller is to do next.
    public enum Action: Equatable, Sendable {
        case none
        /// Run the acquire script for this waiter.
        case attempt(WaiterID)
        /// Call `timerFired` then.
        case armTimer(Instant)
        /// Nobody waits: drop the queue.
        case drop
    }

    /// What became of an attempt whose script has been answered.
    public enum Grant: Equatable, Sendable {
        /// The waiter has it.
        case deliver
        /// The waiter left meanwhile: give it back.
        case giveBack
    }

    private enum State: Equatable, Sendable {
        /// The head waits for a wake-up or the timer.
        case resting
        /// The head's script is under way.
        case attempting(WaiterID, wokenMeanwhile: Bool, isAbandoned: Bool)
    }

    private var waiters: Deque<Waiter> = []
    private var state = State.resting

    public init() {}

    public var count: Int { waiters.count }
    public var isEmpty: Bool { waiters.isEmpty && state == .resting }

    /// No waiter of this queue waits longer than this; it may be later than the last of those who still do.
    public private(set) var latestDeadline = Instant(nanoseconds: .min)

    /// A new waiter takes its place at the end.
    public mutating func enqueue(_ waiter: Waiter) -> Action {
        waiters.append(waiter)
        latestDeadline = max(latestDeadline, waiter.deadline)
        return waiters.count == 1 ? attemptHead() : .none
    }

    /// The head's script granted the lock.
    public mutating func granted(_ id: WaiterID) -> (grant: Grant, next: Action) {
        guard case .attempting(id, _, let isAbandoned) = state else { return (.giveBack, .none) }
        state = .resting
        guard !isAbandoned, waiters.first?.id == id else {
            // What is given back wakes the queue as any release does.
            return (.giveBack, waiters.isEmpty ? .drop : .none)
        }
        waiters.removeFirst()
        return (.deliver, waiters.isEmpty ? .drop : .none)
    }

    /// The head's script found the lock held, for `ttl` more milliseconds (`nil`: without end).
    public mutating func refused(_ id: WaiterID, ttl: Int64?, now: Instant) -> Action {
        guard case .attempting(id, let wokenMeanwhile, let isAbandoned) = state else { return .none }
        state = .resting
        if waiters.isEmpty { return .drop }
        if wokenMeanwhile || isAbandoned { return attemptHead() }
        return rest(ttl: ttl, now: now)
    }

    /// The head's script has no answer: the caller has told the waiter, who leaves.
    public mutating func failed(_ id: WaiterID) -> Action {
        guard case .attempting(id, _, _) = state else { return .none }
        state = .resting
        if waiters.first?.id == id { waiters.removeFirst() }
        return waiters.isEmpty ? .drop : attemptHead()
    }

    /// The head's script has no answer because the connection went: the head stays, and tries again when Redis is back or
    /// at the next recheck.
    public mutating func unanswered(_ id: WaiterID, now: Instant) -> Action {
        guard case .attempting(id, _, _) = state else { return .none }
        state = .resting
        return waiters.isEmpty ? .drop : rest(ttl: nil, now: now)
    }

    /// The lock may be free: a release was seen, a message came, or messages may have been lost.
    public mutating func wake() -> Action {
        switch state {
        case .resting:
            return attemptHead()
        case .attempting(let id, _, let isAbandoned):
            state = .attempting(id, wokenMeanwhile: true, isAbandoned: isAbandoned)
            return .none
        }
    }

    /// The timer that `armTimer` asked for.
    public mutating func timerFired() -> Action {
        state == .resting ? attemptHead() : .none
    }

    /// After a grant to one of this queue: the next head rests until that lease is over at the latest.
    public mutating func rest(ttl: Int64?, now: Instant) -> Action {
        guard state == .resting, !waiters.isEmpty else { return .none }
        // A key is gone in the millisecond after its ttl.
        let pause = min(ttl.map { max(0, $0) + 1 } ?? Self.recheckMilliseconds, Self.recheckMilliseconds)
        return .armTimer(now.advanced(byMilliseconds: pause))
    }

    /// A waiter gives up, timed out or disconnected. `wasWaiting` is false when it had already left.
    public mutating func remove(_ id: WaiterID) -> (wasWaiting: Bool, next: Action) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return (false, .none) }
        waiters.remove(at: index)
        switch state {
        case .attempting(id, let wokenMeanwhile, _):
            state = .attempting(id, wokenMeanwhile: wokenMeanwhile, isAbandoned: true)
            return (true, .none)
        case .attempting:
            return (true, .none)
        case .resting:
            if waiters.isEmpty { return (true, .drop) }
            // A new head refreshes the sidecar's ticket, whose deadline may have been the leaver's.
            return (true, index == 0 ? attemptHead() : .none)
        }
    }

    private mutating func attemptHead() -> Action {
        guard state == .resting, let head = waiters.first else { return .none }
        state = .attempting(head.id, wokenMeanwhile: false, isAbandoned: false)
        return .attempt(head.id)
    }
}

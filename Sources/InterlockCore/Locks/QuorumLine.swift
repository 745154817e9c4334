internal import DequeModule

/// The waiters for one quorum lock within one sidecar, first come, first served. Only the head tries; no message tells when
/// the lock is free, so it tries again after a pause, or when it is released through this sidecar.
///
/// A line exists only while somebody waits.
package struct QuorumLine: Sendable {
    package typealias WaiterID = UInt64

    /// What the caller is to do next.
    package enum Action: Equatable, Sendable {
        case none
        case attempt(WaiterID)
        /// Call `timerFired` after a pause that suits this waiter, or never when its wait is over before.
        case pause(WaiterID)
        /// Nobody waits: drop the line.
        case drop
    }

    private enum State: Equatable, Sendable {
        case resting
        case attempting(WaiterID, wokenMeanwhile: Bool)
    }

    private var waiters: Deque<WaiterID> = []
    private var state = State.resting

    package init() {}

    package var count: Int { waiters.count }
    /// Who waits, in the order in which they came.
    package var all: some Sequence<WaiterID> { waiters }

    /// Whether an attempt of this waiter is under way.
    package func isAttempting(_ id: WaiterID) -> Bool {
        if case .attempting(id, _) = state { true } else { false }
    }

    /// A new waiter takes its place at the end.
    package mutating func enqueue(_ id: WaiterID) -> Action {
        waiters.append(id)
        return waiters.count == 1 ? attemptHead() : .none
    }

    /// A waiter gives up, timed out or disconnected. O(n) in waiters.
    package mutating func remove(_ id: WaiterID) -> Action {
        guard let index = waiters.firstIndex(of: id) else { return .none }
        waiters.remove(at: index)
        guard state == .resting else { return .none }
        if waiters.isEmpty { return .drop }
        return index == 0 ? attemptHead() : .none
    }

    /// The head's attempt took the lock. `isWanted` is false when the waiter has left meanwhile: it is to be given back.
    package mutating func granted(_ id: WaiterID) -> (isWanted: Bool, next: Action) {
        guard endAttempt(id) != nil else { return (false, .none) }
        let isWanted = waiters.first == id
        if isWanted { waiters.removeFirst() }
        return (isWanted, waiters.first.map { .pause($0) } ?? .drop)
    }

    /// The head's attempt did not take the lock.
    package mutating func refused(_ id: WaiterID) -> Action {
        guard let isWoken = endAttempt(id) else { return .none }
        guard let head = waiters.first else { return .drop }
        return isWoken || head != id ? attemptHead() : .pause(head)
    }

    /// The head's attempt was its last: the waiter has been told, and leaves.
    package mutating func failed(_ id: WaiterID) -> Action {
        guard endAttempt(id) != nil else { return .none }
        if waiters.first == id { waiters.removeFirst() }
        return waiters.isEmpty ? .drop : attemptHead()
    }

    /// The lock may be free.
    package mutating func wake() -> Action {
        switch state {
        case .resting:
            return attemptHead()
        case .attempting(let id, _):
            state = .attempting(id, wokenMeanwhile: true)
            return .none
        }
    }

    /// The pause is over.
    package mutating func timerFired() -> Action { attemptHead() }

    private mutating func attemptHead() -> Action {
        guard state == .resting, let head = waiters.first else { return .none }
        state = .attempting(head, wokenMeanwhile: false)
        return .attempt(head)
    }

    /// Whether a wake-up came while it was under way; `nil`: no attempt of `id` is.
    private mutating func endAttempt(_ id: WaiterID) -> Bool? {
        guard case .attempting(id, let wokenMeanwhile) = state else { return nil }
        state = .resting
        return wokenMeanwhile
    }
}

internal import DequeModule

/// The waiters for one quorum lock within one sidecar, served first come, first served. Only the first waiter, the
/// head, tries. No message reports a free lock, so the head tries again after a pause or after a release through this
/// sidecar.
///
/// A queue exists only while a call waits in it.
package struct QuorumQueue: Sendable {
    package typealias WaiterID = UInt64

    /// The caller's next step.
    package enum Action: Equatable, Sendable {
        case none
        /// Try to acquire the lock for this waiter.
        case attempt(WaiterID)
        /// Call `timerFired` after a pause chosen for this waiter, unless the wait ends first.
        case pause(WaiterID)
        /// Drop the queue, because no call waits.
        case drop
    }

    private enum State: Equatable, Sendable {
        case idle
        case attempting(WaiterID, wokenMeanwhile: Bool)
    }

    private var waiters: Deque<WaiterID> = []
    private var state = State.idle

    package init() {}

    package var count: Int { waiters.count }
    /// The waiters in order of arrival.
    package var all: some Sequence<WaiterID> { waiters }

    /// Returns whether an attempt of this waiter is in flight.
    package func isAttempting(_ id: WaiterID) -> Bool {
        if case .attempting(id, _) = state { true } else { false }
    }

    /// Adds a waiter at the end.
    package mutating func enqueue(_ id: WaiterID) -> Action {
        waiters.append(id)
        return waiters.count == 1 ? attemptHead() : .none
    }

    /// Removes a waiter that timed out or disconnected. O(n) in waiters.
    package mutating func remove(_ id: WaiterID) -> Action {
        guard let index = waiters.firstIndex(of: id) else { return .none }
        waiters.remove(at: index)
        guard state == .idle else { return .none }
        if waiters.isEmpty { return .drop }
        return index == 0 ? attemptHead() : .none
    }

    /// Records that the attempt took the lock. `isWanted` is false if the waiter has left meanwhile; the caller then
    /// releases the lock.
    package mutating func attemptGranted(_ id: WaiterID) -> (isWanted: Bool, next: Action) {
        guard endAttempt(id) != nil else { return (false, .none) }
        let isWanted = waiters.first == id
        if isWanted { waiters.removeFirst() }
        return (isWanted, waiters.first.map { .pause($0) } ?? .drop)
    }

    /// Records that the attempt did not take the lock.
    package mutating func attemptRefused(_ id: WaiterID) -> Action {
        guard let isWoken = endAttempt(id) else { return .none }
        guard let head = waiters.first else { return .drop }
        return isWoken || head != id ? attemptHead() : .pause(head)
    }

    /// Records that the attempt ended with an error or was the last one, which the caller of this method reports to the
    /// waiter. Removes the waiter.
    package mutating func attemptFailed(_ id: WaiterID) -> Action {
        guard endAttempt(id) != nil else { return .none }
        if waiters.first == id { waiters.removeFirst() }
        return waiters.isEmpty ? .drop : attemptHead()
    }

    /// Wakes the head, because the lock may be free.
    package mutating func wake() -> Action {
        switch state {
        case .idle:
            return attemptHead()
        case .attempting(let id, _):
            state = .attempting(id, wokenMeanwhile: true)
            return .none
        }
    }

    /// Handles the end of the pause: the head tries again.
    package mutating func timerFired() -> Action { attemptHead() }

    private mutating func attemptHead() -> Action {
        guard state == .idle, let head = waiters.first else { return .none }
        state = .attempting(head, wokenMeanwhile: false)
        return .attempt(head)
    }

    /// Ends the attempt of `id`.
    /// - Returns: whether a wake-up arrived while the attempt was in flight; `nil` if no attempt of `id` is in flight.
    private mutating func endAttempt(_ id: WaiterID) -> Bool? {
        guard case .attempting(id, let wokenMeanwhile) = state else { return nil }
        state = .idle
        return wokenMeanwhile
    }
}

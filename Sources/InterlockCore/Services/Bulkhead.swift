/// The slots for concurrent calls to one service in this sidecar and the queue of calls that wait for one, as in the
/// bulkhead of Nygard's "Release It!".
///
/// Slots are granted in order of arrival, and no newcomer overtakes a waiting call. The caller runs `assignSlots`
/// whenever a slot may have come free or a deadline has passed, and carries out the result.
package struct Bulkhead: Sendable {
    /// The result of a call's request for a slot.
    package enum Entry: Equatable, Sendable {
        /// The call owns a slot until `release`.
        case taken
        /// The call waits in the queue; `assignSlots` reports the result.
        case waiting
        /// No slot is free, and the call cannot wait.
        case full
    }

    /// The calls whose wait has ended.
    package struct Assignment: Equatable, Sendable {
        /// The calls that own a slot now, in this order.
        package var admitted: [UInt64] = []
        /// The calls whose deadline has passed.
        package var expired: [UInt64] = []

        package init(admitted: [UInt64] = [], expired: [UInt64] = []) {
            self.admitted = admitted
            self.expired = expired
        }
    }

    /// The retry delay given to a refused caller before the duration of calls is known.
    package static let minimumRetryMilliseconds: Int64 = 50
    package static let maximumRetryMilliseconds: Int64 = 5000

    /// The number of slots; `nil` for no limit.
    package private(set) var slots: Int?
    /// The number of slots in use. It is counted even without a limit, so that one can be set while calls are under
    /// way.
    package private(set) var taken = 0
    private var queue: WaitingQueue
    /// The mean time for which a slot is held, in milliseconds. Each new call has a weight of one eighth.
    private var meanHold = 0.0

    package init(slots: Int?, maximumWaiting: Int) {
        self.slots = slots
        queue = WaitingQueue(capacity: maximumWaiting)
    }

    package var waitingCount: Int { queue.count }

    /// Whether a call that arrives now would find no free slot.
    package var isFull: Bool {
        guard let slots else { return false }
        return taken >= slots || !queue.isEmpty
    }

    /// The milliseconds after which a refused call can expect a slot, estimated from the mean hold time and the number
    /// of waiting calls.
    package var retryMilliseconds: Int64 {
        let turns = meanHold * Double(queue.count + 1) / Double(max(1, slots ?? 1))
        return min(max(Int64(turns.rounded(.up)), Self.minimumRetryMilliseconds), Self.maximumRetryMilliseconds)
    }

    /// Requests a slot for a call.
    /// - Parameters:
    ///   - number: the call's number, which rises in order of arrival.
    ///   - subject: the call's subject; `nil` if it has none.
    ///   - hasWaited: whether the call has waited before and so is exempt from its subject's limit.
    ///   - deadline: the end of the call's wait; `nil` if it does not wait.
    package mutating func enter(
        _ number: UInt64, of subject: String? = nil, hasWaited: Bool = false, deadline: Instant?, now: Instant
    ) -> Entry {
        guard isFull else {
            taken += 1
            return .taken
        }
        guard let deadline, deadline > now,
            queue.insert(.init(number: number, deadline: deadline, earliest: now, subject: subject, hasWaited: hasWaited))
        else {
            return .full
        }
        return .waiting
    }

    /// Frees a slot. `assignSlots` grants it to the next call.
    /// - Parameter held: the milliseconds for which a call was in flight; `nil` if no call is known to have been made.
    package mutating func release(heldForMilliseconds held: Int64?) {
        taken -= 1
        guard let held else { return }
        meanHold = meanHold == 0 ? Double(held) : meanHold + (Double(held) - meanHold) / 8
    }

    /// Removes a waiting call. Returns `false` if it does not wait here.
    package mutating func remove(_ number: UInt64) -> Bool {
        queue.remove(number)
    }

    /// Removes all waiting calls and returns their numbers.
    package mutating func removeAll() -> [UInt64] {
        queue.removeAll { _ in true }.map(\.number)
    }

    /// Applies a changed configuration. Waiting calls stay in the queue, and `assignSlots` grants them the slots added.
    package mutating func resize(slots: Int?, maximumWaiting: Int) {
        self.slots = slots
        queue.capacity = maximumWaiting
    }

    /// Grants free slots to waiting calls and ends expired waits. O(n) in waiters if one has expired, otherwise in the
    /// calls that get a slot.
    package mutating func assignSlots(now: Instant) -> Assignment {
        var assignment = Assignment()
        guard !queue.isEmpty else { return assignment }
        assignment.expired = queue.removeAll { $0.deadline <= now }.map(\.number)
        while let next = queue.first, slots.map({ taken < $0 }) ?? true {
            queue.removeFirst()
            taken += 1
            assignment.admitted.append(next.number)
        }
        return assignment
    }

    /// The earliest deadline, at which `assignSlots` must run; `nil` if no call waits. O(n).
    package var nextDeadline: Instant? { queue.nextDeadline }
}

/// The slots for concurrent calls to one service in this sidecar, and the queue of calls that wait for a slot: the
/// bulkhead of Nygard's "Release It!".
///
/// Calls get slots in order of arrival, and no newcomer overtakes a waiting call. The caller runs `assignSlots`
/// whenever a slot may be free or a deadline has passed, and carries out the result.
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
        /// The numbers of the calls that own a slot now, in this order.
        package var admitted: [UInt64] = []
        /// The numbers of the calls whose deadline has passed.
        package var expired: [UInt64] = []

        package init(admitted: [UInt64] = [], expired: [UInt64] = []) {
            self.admitted = admitted
            self.expired = expired
        }
    }

    /// The minimum retry delay given to a refused caller, used before the duration of calls is known.
    package static let minimumRetryMilliseconds: Int64 = 50
    /// The maximum retry delay given to a refused caller.
    package static let maximumRetryMilliseconds: Int64 = 5000

    /// The number of slots; `nil` for no limit.
    package private(set) var slots: Int?
    /// The number of slots in use. It is counted even without a limit, so that a reload can set a limit while calls are
    /// in flight.
    package private(set) var taken = 0
    private var queue: WaitingQueue
    /// The mean time for which a call holds a slot. Each new call has a weight of one eighth.
    private var meanHoldMilliseconds = 0.0

    package init(slots: Int?, maximumWaiting: Int) {
        self.slots = slots
        queue = WaitingQueue(capacity: maximumWaiting)
    }

    package var waitingCount: Int { queue.count }

    /// Whether a call that arrives now finds no free slot.
    package var isFull: Bool {
        guard let slots else { return false }
        return taken >= slots || !queue.isEmpty
    }

    /// The milliseconds after which a refused call can expect a slot, estimated from the mean hold time and the number
    /// of waiting calls.
    package var retryMilliseconds: Int64 {
        let expectedMilliseconds = meanHoldMilliseconds * Double(queue.count + 1) / Double(max(1, slots ?? 1))
        return min(
            max(Int64(expectedMilliseconds.rounded(.up)), Self.minimumRetryMilliseconds), Self.maximumRetryMilliseconds)
    }

    /// Requests a slot for a call.
    /// - Parameters:
    ///   - number: the call's number, which rises in order of arrival.
    ///   - subject: the call's subject; `nil` for a call without a subject.
    ///   - hasWaited: whether the call has waited before, which exempts it from its subject's limit.
    ///   - deadline: the end of the call's wait; `nil` if it does not wait.
    package mutating func enter(
        _ number: UInt64, of subject: String? = nil, hasWaited: Bool = false, deadline: Instant?, now: Instant
    ) -> Entry {
        guard isFull else {
            taken += 1
            return .taken
        }
        guard let deadline, deadline > now,
            queue.insert(
                .init(number: number, deadline: deadline, earliest: now, subject: subject, hasWaited: hasWaited))
        else {
            return .full
        }
        return .waiting
    }

    /// Frees a slot, which `assignSlots` gives to the next call.
    /// - Parameter holdMilliseconds: the milliseconds for which a call was in flight; `nil` if no call is known to have
    ///   been made.
    package mutating func release(heldForMilliseconds holdMilliseconds: Int64?) {
        taken -= 1
        guard let holdMilliseconds else { return }
        let hold = Double(holdMilliseconds)
        meanHoldMilliseconds =
            meanHoldMilliseconds == 0 ? hold : meanHoldMilliseconds + (hold - meanHoldMilliseconds) / 8
    }

    /// Removes a waiting call. Returns `false` if the call does not wait here.
    package mutating func remove(_ number: UInt64) -> Bool {
        queue.remove(number)
    }

    /// Removes all waiting calls and returns their numbers.
    package mutating func removeAll() -> [UInt64] {
        queue.removeAll { _ in true }.map(\.number)
    }

    /// Applies a changed configuration. Waiting calls stay in the queue, and `assignSlots` gives them the added slots.
    package mutating func resize(slots: Int?, maximumWaiting: Int) {
        self.slots = slots
        queue.capacity = maximumWaiting
    }

    /// Gives free slots to waiting calls, and ends expired waits. O(n) in waiting calls if a wait has expired,
    /// otherwise in the calls that get a slot.
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

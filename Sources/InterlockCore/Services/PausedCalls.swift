/// Calls that wait while one service is paused. They reached its limit and tripped the breaker. The first is sent again
/// by itself when the breaker half-opens, and the others follow in order when it has closed.
///
/// The caller runs `decide` when the breaker changes, when a sent call is answered, and at `nextWakeUp`, and carries
/// out the result.
package struct PausedCalls: Sendable {
    /// The effect of a breaker on waiting calls.
    package enum Gate: Equatable, Sendable {
        /// Calls are made.
        case clear
        /// One call at a time may be made, with a trial permit.
        case trial
        /// The pause is expected to last until this time.
        case paused(until: Instant)
        /// The breaker is open for another cause than the limit, so waiting is useless. `retryAfter` is in
        /// milliseconds.
        case refusing(retryAfter: Int64)

        /// Returns the milliseconds after which a call that cannot wait may try again.
        package func retryMilliseconds(now: Instant) -> Int64 {
            switch self {
            case .clear, .trial: 100
            case .paused(let until): max(1, until.millisecondsRoundedUp(since: now))
            case .refusing(let retryAfter): retryAfter
            }
        }
    }

    package struct Decision: Equatable, Sendable {
        /// The calls to send now, in this order.
        package var sent: [UInt64] = []
        /// The calls to refuse.
        package var refused: [Refusal] = []

        package init(sent: [UInt64] = [], refused: [Refusal] = []) {
            self.sent = sent
            self.refused = refused
        }
    }

    package struct Refusal: Equatable, Sendable {
        package var number: UInt64
        /// The retry delay in milliseconds.
        package var retryAfter: Int64

        package init(number: UInt64, retryAfter: Int64) {
            self.number = number
            self.retryAfter = retryAfter
        }
    }

    private var queue: WaitingQueue
    /// The number of the trial call in flight, until `returned`.
    private var trialCall: UInt64?
    /// The start of the next trial if the breaker has not closed by then. Set after a successful trial,
    /// which is about to close it.
    private var nextTrialAt: Instant?

    package init(maximumWaiting: Int) {
        queue = WaitingQueue(capacity: maximumWaiting)
    }

    package var isEmpty: Bool { queue.isEmpty }
    package var count: Int { queue.count }
    /// Whether a call waits or a trial is in flight; a newcomer that can wait then joins the queue.
    package var isActive: Bool { !queue.isEmpty || trialCall != nil }

    package mutating func resize(maximumWaiting: Int) {
        queue.capacity = maximumWaiting
    }

    /// Adds a waiting call. Returns `false` if it would give up before it could be sent, or if the queue or its
    /// subject's part of it is full.
    /// - Parameters:
    ///   - number: the call's number, which rises in order of arrival; a call that returns gets its former position.
    ///   - earliest: the time before which the call would be refused again.
    ///   - hasWaited: whether the call has waited before and so is exempt from its subject's limit.
    package mutating func insert(
        _ number: UInt64, of subject: String? = nil, hasWaited: Bool = false, deadline: Instant, earliest: Instant
    ) -> Bool {
        guard earliest <= deadline,
            queue.insert(.init(number: number, deadline: deadline, earliest: earliest, subject: subject, hasWaited: hasWaited))
        else {
            return false
        }
        if trialCall == number { trialCall = nil }
        return true
    }

    /// Removes a waiting call. Returns `false` if it does not wait here.
    package mutating func remove(_ number: UInt64) -> Bool {
        queue.remove(number)
    }

    /// Removes all waiting calls and returns their numbers.
    package mutating func removeAll() -> [UInt64] {
        queue.removeAll { _ in true }.map(\.number)
    }

    /// Records that a sent call was answered or cancelled.
    /// - Parameters:
    ///   - wasGranted: whether the call was granted, which is about to close the breaker.
    ///   - retryAt: the start of the next trial if the breaker has not closed.
    /// - Returns: whether the call was the trial.
    package mutating func returned(_ number: UInt64, wasGranted: Bool, retryAt: Instant) -> Bool {
        guard trialCall == number else { return false }
        trialCall = nil
        nextTrialAt = wasGranted ? retryAt : nil
        return true
    }

    /// Returns the calls to send and those whose wait is useless. O(n) in waiting calls.
    package mutating func decide(_ gate: Gate, now: Instant) -> Decision {
        var decision = Decision()
        guard !queue.isEmpty else { return decision }
        refuse(queue.removeAll { $0.deadline <= now }, retryAfter: gate.retryMilliseconds(now: now), into: &decision)
        switch gate {
        case .clear:
            nextTrialAt = nil
            decision.sent = queue.removeAll { $0.earliest <= now }.map(\.number)
        case .trial:
            guard trialCall == nil, nextTrialAt.map({ $0 <= now }) ?? true else { break }
            guard let first = queue.first, first.earliest <= now else { break }
            nextTrialAt = nil
            queue.removeFirst()
            trialCall = first.number
            decision.sent = [first.number]
        case .paused(let until):
            refuse(queue.removeAll { $0.deadline < until }, retryAfter: until.millisecondsRoundedUp(since: now), into: &decision)
        case .refusing(let retryAfter):
            refuse(queue.removeAll { _ in true }, retryAfter: retryAfter, into: &decision)
        }
        return decision
    }

    /// Returns the deadline for the next run of `decide` if nothing else happens; `nil` if no call waits. O(n).
    package func nextWakeUp(_ gate: Gate, now: Instant) -> Instant? {
        guard let deadline = queue.nextDeadline else { return nil }
        let next: Instant? =
            switch gate {
            case .clear: queue.earliest
            case .trial: trialCall == nil ? max(queue.first?.earliest ?? now, nextTrialAt ?? now) : nil
            case .paused(let until): until
            case .refusing: now
            }
        return min(deadline, next ?? deadline)
    }

    private func refuse(_ entries: [WaitingQueue.Entry], retryAfter: Int64, into decision: inout Decision) {
        decision.refused += entries.map { Refusal(number: $0.number, retryAfter: retryAfter) }
    }
}

/// Calls that wait while a service is paused, because a reached limit has opened its breaker. When the breaker
/// half-opens, the first call is sent alone, as a trial. The others follow in order when the breaker has closed.
///
/// The caller runs `decide` when the breaker changes, when a sent call is answered, and at `nextWakeUp`, and carries
/// out the result.
package struct PausedCalls: Sendable {
    /// The effect of a breaker on waiting calls.
    package enum Gate: Equatable, Sendable {
        /// Calls may be made.
        case clear
        /// One call at a time may be made, as a trial.
        case trial
        /// The pause is expected to last until this time.
        case paused(until: Instant)
        /// The breaker is open for a cause other than the limit, so waiting is useless.
        case refusing(retryAfterMilliseconds: Int64)

        /// Returns the milliseconds after which a call that cannot wait may try again.
        package func retryMilliseconds(now: Instant) -> Int64 {
            switch self {
            case .clear, .trial: 100
            case .paused(let until): max(1, until.millisecondsRoundedUp(since: now))
            case .refusing(let retryAfterMilliseconds): retryAfterMilliseconds
            }
        }
    }

    /// The calls whose wait has ended.
    package struct Decision: Equatable, Sendable {
        /// The numbers of the calls to send now, in this order.
        package var sent: [UInt64] = []
        /// The calls to refuse.
        package var refused: [Refusal] = []

        package init(sent: [UInt64] = [], refused: [Refusal] = []) {
            self.sent = sent
            self.refused = refused
        }
    }

    /// A call to refuse.
    package struct Refusal: Equatable, Sendable {
        package var number: UInt64
        /// The retry delay in milliseconds.
        package var retryAfterMilliseconds: Int64

        package init(number: UInt64, retryAfterMilliseconds: Int64) {
            self.number = number
            self.retryAfterMilliseconds = retryAfterMilliseconds
        }
    }

    private var queue: WaitingQueue
    /// The number of the trial call in flight; `nil` if no trial is in flight.
    private var trialNumber: UInt64?
    /// The start of the next trial if the breaker has not closed by then; `nil` unless the last trial was granted,
    /// which is about to close the breaker.
    private var nextTrialAt: Instant?

    package init(maximumWaiting: Int) {
        queue = WaitingQueue(capacity: maximumWaiting)
    }

    package var isEmpty: Bool { queue.isEmpty }
    package var count: Int { queue.count }
    /// Whether a call waits or a trial is in flight. A newcomer that can wait then joins the queue.
    package var isActive: Bool { !queue.isEmpty || trialNumber != nil }

    package mutating func resize(maximumWaiting: Int) {
        queue.capacity = maximumWaiting
    }

    /// Adds a waiting call. Returns `false` if the call would give up before it could be sent, or if the queue or the
    /// subject's part of the queue is full.
    /// - Parameters:
    ///   - number: the call's number, which rises in order of arrival; a call that returns gets its former position.
    ///   - hasWaited: whether the call has waited before, which exempts it from its subject's limit.
    ///   - earliest: the time before which the limit would refuse the call again.
    package mutating func insert(
        _ number: UInt64, of subject: String? = nil, hasWaited: Bool = false, deadline: Instant, earliest: Instant
    ) -> Bool {
        guard earliest <= deadline,
            queue.insert(
                .init(number: number, deadline: deadline, earliest: earliest, subject: subject, hasWaited: hasWaited))
        else {
            return false
        }
        if trialNumber == number { trialNumber = nil }
        return true
    }

    /// Removes a waiting call. Returns `false` if the call does not wait here.
    package mutating func remove(_ number: UInt64) -> Bool {
        queue.remove(number)
    }

    /// Removes all waiting calls and returns their numbers.
    package mutating func removeAll() -> [UInt64] {
        queue.removeAll { _ in true }.map(\.number)
    }

    /// Records that a sent call was answered or cancelled.
    /// - Parameters:
    ///   - wasGranted: whether the call was granted. A granted trial is about to close the breaker.
    ///   - retryAt: the start of the next trial if the breaker has not closed.
    /// - Returns: whether the call was the trial.
    package mutating func sentCallEnded(_ number: UInt64, wasGranted: Bool, retryAt: Instant) -> Bool {
        guard trialNumber == number else { return false }
        trialNumber = nil
        nextTrialAt = wasGranted ? retryAt : nil
        return true
    }

    /// Returns the calls to send and those whose wait is useless. O(n) in waiting calls.
    package mutating func decide(_ gate: Gate, now: Instant) -> Decision {
        var decision = Decision()
        guard !queue.isEmpty else { return decision }
        refuse(
            queue.removeAll { $0.deadline <= now }, retryAfterMilliseconds: gate.retryMilliseconds(now: now),
            into: &decision)
        switch gate {
        case .clear:
            nextTrialAt = nil
            decision.sent = queue.removeAll { $0.earliest <= now }.map(\.number)
        case .trial:
            guard trialNumber == nil, nextTrialAt.map({ $0 <= now }) ?? true else { break }
            guard let first = queue.first, first.earliest <= now else { break }
            nextTrialAt = nil
            queue.removeFirst()
            trialNumber = first.number
            decision.sent = [first.number]
        case .paused(let until):
            refuse(
                queue.removeAll { $0.deadline < until },
                retryAfterMilliseconds: until.millisecondsRoundedUp(since: now),
                into: &decision)
        case .refusing(let retryAfterMilliseconds):
            refuse(queue.removeAll { _ in true }, retryAfterMilliseconds: retryAfterMilliseconds, into: &decision)
        }
        return decision
    }

    /// Returns the time by which `decide` must run again if nothing else happens; `nil` if no call waits. O(n).
    package func nextWakeUp(_ gate: Gate, now: Instant) -> Instant? {
        guard let deadline = queue.nextDeadline else { return nil }
        let next: Instant? =
            switch gate {
            case .clear: queue.earliest
            case .trial: trialNumber == nil ? max(queue.first?.earliest ?? now, nextTrialAt ?? now) : nil
            case .paused(let until): until
            case .refusing: now
            }
        return min(deadline, next ?? deadline)
    }

    private func refuse(_ entries: [WaitingQueue.Entry], retryAfterMilliseconds: Int64, into decision: inout Decision) {
        decision.refused += entries.map { Refusal(number: $0.number, retryAfterMilliseconds: retryAfterMilliseconds) }
    }
}

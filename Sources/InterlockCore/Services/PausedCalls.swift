/// Calls to one service that wait through its pause: its limit was reached and tripped the breaker, and they are sent again
/// when that half-opens, the first alone, and when it has closed, the others in their order.
///
/// The caller runs `decide` when the breaker changes, when a call that was sent has its answer, and at `nextWakeUp`, and
/// carries out what it says.
package struct PausedCalls: Sendable {
    /// What a breaker does to calls that wait.
    package enum Gate: Equatable, Sendable {
        /// Calls are made.
        case clear
        /// One call at a time may try, with a trial permit.
        case trial
        /// The pause goes on, until then as far as is known.
        case paused(until: Instant)
        /// Another cause than the limit keeps calls from being made; a wait is no use. In milliseconds.
        case refusing(retryAfter: Int64)

        /// When a call that cannot wait may try again.
        package func retryMilliseconds(now: Instant) -> Int64 {
            switch self {
            case .clear, .trial: 100
            case .paused(let until): max(1, until.millisecondsRoundedUp(since: now))
            case .refusing(let retryAfter): retryAfter
            }
        }
    }

    package struct Decision: Equatable, Sendable {
        /// These are sent now, in this order.
        package var sent: [UInt64] = []
        /// These are refused.
        package var refused: [Refusal] = []

        package init(sent: [UInt64] = [], refused: [Refusal] = []) {
            self.sent = sent
            self.refused = refused
        }
    }

    package struct Refusal: Equatable, Sendable {
        package var number: UInt64
        /// In milliseconds.
        package var retryAfter: Int64

        package init(number: UInt64, retryAfter: Int64) {
            self.number = number
            self.retryAfter = retryAfter
        }
    }

    private var line: WaitingLine
    /// The call that was sent to try, until `returned`.
    private var trying: UInt64?
    /// Of one that tried and was let through: the breaker is about to close, and the others follow then; at the latest now.
    private var resumption: Instant?

    package init(maximumWaiting: Int) {
        line = WaitingLine(capacity: maximumWaiting)
    }

    package var isEmpty: Bool { line.isEmpty }
    package var count: Int { line.count }
    /// Whether anybody waits or tries: a newcomer who can wait stands behind them.
    package var isActive: Bool { !line.isEmpty || trying != nil }

    package mutating func resize(maximumWaiting: Int) {
        line.capacity = maximumWaiting
    }

    /// A call waits. `false`: it cannot be sent before it gives up, or the line is full, or its subject's part of it.
    /// - Parameters:
    ///   - number: rises with the calls' arrival; one that comes back stands where it stood before.
    ///   - earliest: before then it would be refused again.
    ///   - isBack: it has waited before, and waits whatever else its subject has.
    package mutating func insert(
        _ number: UInt64, of subject: String? = nil, isBack: Bool = false, deadline: Instant, earliest: Instant
    ) -> Bool {
        guard earliest <= deadline,
            line.insert(.init(number: number, deadline: deadline, earliest: earliest, subject: subject, isBack: isBack))
        else {
            return false
        }
        if trying == number { trying = nil }
        return true
    }

    /// A call that waits leaves. `false`: it does not wait here.
    package mutating func leave(_ number: UInt64) -> Bool {
        line.remove(number)
    }

    /// Everyone who waits leaves.
    package mutating func leaveAll() -> [UInt64] {
        line.removeAll { _ in true }.map(\.number)
    }

    /// A call that was sent has its answer, or was given up.
    /// - Parameters:
    ///   - wasGranted: the breaker closes by it.
    ///   - patience: if it has not closed then, the next one tries.
    /// - Returns: whether it was the one that tried.
    package mutating func returned(_ number: UInt64, wasGranted: Bool, patience: Instant) -> Bool {
        guard trying == number else { return false }
        trying = nil
        resumption = wasGranted ? patience : nil
        return true
    }

    /// Who is sent, and whose wait is no use. O(n) in those who wait.
    package mutating func decide(_ gate: Gate, now: Instant) -> Decision {
        var decision = Decision()
        guard !line.isEmpty else { return decision }
        refuse(line.removeAll { $0.deadline <= now }, retryAfter: gate.retryMilliseconds(now: now), into: &decision)
        switch gate {
        case .clear:
            resumption = nil
            decision.sent = line.removeAll { $0.earliest <= now }.map(\.number)
        case .trial:
            guard trying == nil, resumption.map({ $0 <= now }) ?? true else { break }
            guard let first = line.first, first.earliest <= now else { break }
            resumption = nil
            line.removeFirst()
            trying = first.number
            decision.sent = [first.number]
        case .paused(let until):
            refuse(line.removeAll { $0.deadline < until }, retryAfter: until.millisecondsRoundedUp(since: now), into: &decision)
        case .refusing(let retryAfter):
            refuse(line.removeAll { _ in true }, retryAfter: retryAfter, into: &decision)
        }
        return decision
    }

    /// When `decide` is to be run next if nothing else happens; `nil`: nobody waits. O(n).
    package func nextWakeUp(_ gate: Gate, now: Instant) -> Instant? {
        guard let deadline = line.nextDeadline else { return nil }
        let next: Instant? =
            switch gate {
            case .clear: line.earliest
            case .trial: trying == nil ? max(line.first?.earliest ?? now, resumption ?? now) : nil
            case .paused(let until): until
            case .refusing: now
            }
        return min(deadline, next ?? deadline)
    }

    private func refuse(_ entries: [WaitingLine.Entry], retryAfter: Int64, into decision: inout Decision) {
        decision.refused += entries.map { Refusal(number: $0.number, retryAfter: retryAfter) }
    }
}

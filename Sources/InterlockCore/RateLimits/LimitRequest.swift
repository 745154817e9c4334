/// A call that asks for its share of a service's limits.
package struct LimitRequest: Equatable, Sendable {
    /// What one call may cost: the costs of all calls that can wait or travel together fit into 64 bits.
    package static let costs: ClosedRange<Int64> = 1...1_000_000_000_000

    /// The caller's own mark; comes back with the answer.
    package var id: Int
    /// For how many equal calls it stands; more than one only without a deadline.
    package var count: Int
    /// How much each call takes, 1 or more.
    package var cost: Int64
    /// Whom it counts for in the per-subject limits; `nil`: they do not bind it.
    package var subject: String?
    /// Until when it is willing to wait for its turn; `nil`: not at all.
    package var deadline: Instant?

    package init(id: Int, count: Int = 1, cost: Int64 = 1, subject: String? = nil, deadline: Instant? = nil) {
        self.id = id
        self.count = count
        self.cost = cost
        self.subject = subject
        self.deadline = deadline
    }
}

/// How a batch was judged, by the script or by this sidecar's own counters.
package struct LimitVerdict: Equatable, Sendable {
    package struct Counter: Equatable, Sendable {
        /// The cost of earlier calls, as far as is counted.
        package var count: Int64
        /// What can be taken in all: the definition's capacity, or this sidecar's share of it.
        package var capacity: Int64
        /// Milliseconds until all of it can be taken again, seen after the batch; for a fixed window that the batch began,
        /// its length.
        package var resetAfter: Int64
        /// How many granted calls a shadow limit had no room for.
        package var excess: Int64

        package init(count: Int64, capacity: Int64, resetAfter: Int64, excess: Int64 = 0) {
            self.count = max(-ScriptNumber.mostExact, min(count, ScriptNumber.mostExact))
            self.capacity = capacity
            self.resetAfter = resetAfter
            self.excess = excess
        }
    }

    package struct Run: Equatable, Sendable {
        /// How many of the run's requests were granted: its first ones.
        package var granted: Int
        /// Which counter refused the rest; meaningless when nothing was refused.
        package var binding: Int
        /// In how many microseconds one of the rest could be granted.
        package var retryAfterMicroseconds: Int64

        package init(granted: Int, binding: Int, retryAfterMicroseconds: Int64) {
            self.granted = granted
            self.binding = binding
            self.retryAfterMicroseconds = retryAfterMicroseconds
        }
    }

    /// Redis' time when it judged, in microseconds of the Unix epoch; 0 when Redis did not.
    package var timeMicroseconds: Int64
    package var counters: [Counter]
    /// Of each run of the batch; none at all: everything was granted.
    package var runs: [Run]

    package init(timeMicroseconds: Int64, counters: [Counter], runs: [Run]) {
        self.timeMicroseconds = timeMicroseconds
        self.counters = counters
        self.runs = runs
    }

    /// Everything is granted and nothing was counted.
    package static func allGranted(_ batch: LimitBatch) -> LimitVerdict {
        LimitVerdict(
            timeMicroseconds: 0,
            counters: batch.counters.map { counter in
                let definition = batch.definitions[counter.definition]
                return Counter(count: 0, capacity: definition.capacity, resetAfter: definition.windowMilliseconds)
            },
            runs: [])
    }

    /// What became of a run of the batch.
    package func decision(on run: LimitBatch.Run, at place: Int) -> Run {
        runs.isEmpty ? Run(granted: run.count, binding: 0, retryAfterMicroseconds: 0) : runs[place]
    }
}

/// What a limit decided about one call, and about the window that binds.
package struct LimitAnswer: Hashable, Sendable {
    /// `nil`: taken. Otherwise how many milliseconds to wait before the same call could be granted;
    /// `neverSatisfiable` when its cost is above the limit.
    package var retryAfter: Int64?
    /// The binding limit's bound.
    package var limit: Int64
    /// What is left in the binding window.
    package var remaining: Int64
    /// Milliseconds until the binding window is whole again.
    package var resetAfter: Int64
    /// The name of the limit that binds, as it was called when it decided: a reload may have taken it away since. `nil`: none does.
    package var limitName: String?

    /// The `retryAfter` of a call that no wait can help.
    package static let neverSatisfiable: Int64 = -1

    package init(retryAfter: Int64?, limit: Int64, remaining: Int64, resetAfter: Int64, limitName: String?) {
        self.retryAfter = retryAfter
        self.limit = limit
        self.remaining = remaining
        self.resetAfter = resetAfter
        self.limitName = limitName
    }

    package var isTaken: Bool { retryAfter == nil }

    /// The call's cost is above what the limit can ever grant at once.
    package var isNeverSatisfiable: Bool { retryAfter == Self.neverSatisfiable }
}

/// The decisions about a batch, made by the script in Redis or by this sidecar's local counters.
package struct BatchVerdict: Equatable, Sendable {
    /// The state of one counter.
    package struct Counter: Equatable, Sendable {
        /// The counted cost of earlier calls.
        package var count: Int64
        /// The total that can be taken: the definition's capacity, or this sidecar's part of it.
        package var capacity: Int64
        /// The milliseconds until the full capacity is available again, after the batch; for a fixed window that the
        /// batch began, the window's length.
        package var resetAfterMilliseconds: Int64
        /// The number of granted calls for which a shadow limit had no capacity.
        package var excess: Int64

        package init(count: Int64, capacity: Int64, resetAfterMilliseconds: Int64, excess: Int64 = 0) {
            self.count = max(-ScriptNumber.maximumExact, min(count, ScriptNumber.maximumExact))
            self.capacity = capacity
            self.resetAfterMilliseconds = resetAfterMilliseconds
            self.excess = excess
        }
    }

    /// The part of a run for which one charge found capacity.
    package struct Fit: Hashable, Sendable {
        /// The number of the run's requests that fit, counted from its first.
        package var count: Int
        /// The microseconds until another request could be granted; meaningless if all fit.
        package var retryAfterMicroseconds: Int64

        package init(count: Int, retryAfterMicroseconds: Int64 = 0) {
            self.count = count
            self.retryAfterMicroseconds = retryAfterMicroseconds
        }
    }

    /// The decision about a run whose requests take from all of their counters or take nothing.
    package struct RunDecision: Equatable, Sendable {
        /// The number of the run's requests that were granted, counted from its first.
        package var grantedCount: Int
        /// The index of the counter that refused the other requests; meaningless if all were granted.
        package var bindingIndex = 0
        /// The microseconds until another request could be granted.
        package var retryAfterMicroseconds: Int64 = 0
    }

    /// The time of the decision, as Unix time in microseconds by the Redis clock; 0 if Redis did not decide.
    package var timeMicroseconds: Int64
    package var counters: [Counter]
    /// The fit of each charge of the batch; empty if everything fits.
    package var fits: [Fit]

    package init(timeMicroseconds: Int64, counters: [Counter], fits: [Fit] = []) {
        self.timeMicroseconds = timeMicroseconds
        self.counters = counters
        self.fits = fits
    }

    /// Returns a verdict that grants everything and counts nothing.
    package static func allGranted(_ batch: LimitBatch) -> BatchVerdict {
        BatchVerdict(
            timeMicroseconds: 0,
            counters: batch.counters.map { counter in
                let definition = batch.definitions[counter.definitionIndex]
                return Counter(count: 0, capacity: definition.capacity, resetAfterMilliseconds: definition.windowMilliseconds)
            })
    }

    /// Returns a verdict that grants nothing and counts nothing.
    package static func noneGranted(_ batch: LimitBatch) -> BatchVerdict {
        BatchVerdict(
            timeMicroseconds: 0, counters: batch.counters.map { _ in Counter(count: 0, capacity: 0, resetAfterMilliseconds: 0) },
            fits: batch.charges.map { _ in Fit(count: 0) })
    }

    /// Returns the decision about a run. A shadow limit refuses no request.
    package func decision(on run: LimitBatch.Run, of batch: LimitBatch) -> RunDecision {
        var decision = RunDecision(grantedCount: run.count)
        guard !fits.isEmpty else { return decision }
        for index in run.charges
        where fits[index].count < decision.grantedCount && !batch.isShadow(batch.charges[index].counterIndex) {
            decision.grantedCount = fits[index].count
        }
        guard decision.grantedCount < run.count else { return decision }
        for index in run.charges where fits[index].count == decision.grantedCount {
            let (charge, waitMicroseconds) = (batch.charges[index], fits[index].retryAfterMicroseconds)
            guard !batch.isShadow(charge.counterIndex) else { continue }
            // A limit that can never grant the cost binds, however soon another limit has capacity.
            let isPossible =
                charge.cost <= batch.definitions[batch.counters[charge.counterIndex].definitionIndex].capacity
            guard waitMicroseconds > decision.retryAfterMicroseconds || !isPossible else { continue }
            (decision.bindingIndex, decision.retryAfterMicroseconds) = (charge.counterIndex, waitMicroseconds)
            if !isPossible { break }
        }
        return decision
    }
}

/// The decisions about a batch, made by the script or by this sidecar's own counters.
package struct BatchVerdict: Equatable, Sendable {
    package struct Counter: Equatable, Sendable {
        /// The counted cost of earlier calls.
        package var count: Int64
        /// The total that can be taken: the definition's capacity, or this sidecar's part of it.
        package var capacity: Int64
        /// Milliseconds until the full capacity is available again, seen after the batch; for a fixed window that the
        /// batch began, its length.
        package var resetAfter: Int64
        /// The number of granted calls for which a shadow limit had no capacity.
        package var excess: Int64

        package init(count: Int64, capacity: Int64, resetAfter: Int64, excess: Int64 = 0) {
            self.count = max(-ScriptNumber.maximumExact, min(count, ScriptNumber.maximumExact))
            self.capacity = capacity
            self.resetAfter = resetAfter
            self.excess = excess
        }
    }

    /// The capacity that a charge of a run found.
    package struct Fit: Hashable, Sendable {
        /// The number of the run's requests that fit: its first ones.
        package var count: Int
        /// Microseconds until one of the rest could be granted; meaningless if all fit.
        package var retryAfterMicroseconds: Int64

        package init(count: Int, retryAfterMicroseconds: Int64 = 0) {
            self.count = count
            self.retryAfterMicroseconds = retryAfterMicroseconds
        }
    }

    /// The decision about a run whose requests take from all their counters or from none.
    package struct RunDecision: Equatable, Sendable {
        /// The number of the run's requests that were granted: its first ones.
        package var granted: Int
        /// The counter that refused the rest; meaningless if none was refused.
        package var binding = 0
        /// Microseconds until one of the rest could be granted.
        package var retryAfterMicroseconds: Int64 = 0
    }

    /// Redis's time of the decision, as Unix time in microseconds; 0 if Redis did not decide.
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
                let definition = batch.definitions[counter.definition]
                return Counter(count: 0, capacity: definition.capacity, resetAfter: definition.windowMilliseconds)
            })
    }

    /// Returns a verdict that grants nothing and counts nothing.
    package static func noneGranted(_ batch: LimitBatch) -> BatchVerdict {
        BatchVerdict(
            timeMicroseconds: 0, counters: batch.counters.map { _ in Counter(count: 0, capacity: 0, resetAfter: 0) },
            fits: batch.charges.map { _ in Fit(count: 0) })
    }

    /// Returns the decision about a run. A shadow limit refuses no request.
    package func decision(on run: LimitBatch.Run, of batch: LimitBatch) -> RunDecision {
        var decision = RunDecision(granted: run.count)
        guard !fits.isEmpty else { return decision }
        for index in run.charges where fits[index].count < decision.granted && !batch.isShadow(batch.charges[index].counter) {
            decision.granted = fits[index].count
        }
        guard decision.granted < run.count else { return decision }
        for index in run.charges where fits[index].count == decision.granted {
            let (charge, wait) = (batch.charges[index], fits[index].retryAfterMicroseconds)
            guard !batch.isShadow(charge.counter) else { continue }
            // A limit that can never grant the cost binds, however soon another one has capacity.
            let isPossible = charge.cost <= batch.definitions[batch.counters[charge.counter].definition].capacity
            guard wait > decision.retryAfterMicroseconds || !isPossible else { continue }
            (decision.binding, decision.retryAfterMicroseconds) = (charge.counter, wait)
            if !isPossible { break }
        }
        return decision
    }
}

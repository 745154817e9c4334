extension LocalCounters {
    /// As `descriptors.lua` does; but what is given back stays with Redis, which knows of it.
    /// - Parameter sidecars: among how many the limits are divided, as far as is known now.
    package mutating func judge(_ batch: DescriptorBatch, sidecars: Int = 1, now: Instant) -> DescriptorVerdict {
        var opened = open(batch.counters.map { ($0.limit, $0.name) }, sidecars: sidecars, now: now)
        var fits: [DescriptorVerdict.Fit] = []
        func take(_ charge: DescriptorBatch.Charge, times count: Int) {
            opened.take(charge.cost * Int64(count), from: charge.counter, now: now)
        }
        for run in batch.runs {
            let charges = batch.charges[run.charges]
            let first = fits.count
            var most = run.count
            for charge in charges {
                let room = opened.room[charge.counter]
                let fit = charge.cost > 0 ? Int(max(0, min(Int64(run.count), room / charge.cost))) : run.count
                fits.append(.init(count: fit))
                if batch.isIndependent { take(charge, times: fit) }
                if !batch.isIndependent, !batch.counters[charge.counter].isShadow { most = min(most, fit) }
            }
            for (place, charge) in zip(first..., charges) {
                if !batch.isIndependent { take(charge, times: min(fits[place].count, most)) }
                fits[place].retryAfterMicroseconds = opened.wait(for: max(1, charge.cost), from: charge.counter, now: now)
            }
        }
        return DescriptorVerdict(timeMicroseconds: 0, counters: close(opened, now: now), fits: fits)
    }
}

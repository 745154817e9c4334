/// Exponential backoff with full jitter: attempt n waits a random time up to `shortest · 2ⁿ`, at most `longest`, so that
/// a fleet that lost its Redis does not come back as one.
///
/// Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
package struct Backoff {
    package let range: ClosedRange<Duration>
    package private(set) var failures = 0

    package init(range: ClosedRange<Duration>) {
        self.range = range
    }

    /// The pause before the next attempt. `random` is in 0…1.
    package mutating func next(random: Double) -> Duration {
        let ceiling = min(range.upperBound, range.lowerBound * (1 << min(failures, 20)))
        failures += 1
        return max(range.lowerBound / 2, ceiling * random)
    }

    package mutating func reset() {
        failures = 0
    }
}

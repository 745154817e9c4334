/// The rules by which sidecars whose callers wait for the same counter divide its capacity. Each sidecar decides
/// independently, without knowing how many calls wait elsewhere.
///
/// When capacity is available again, a sidecar takes it in parts: a quarter of its even portion at a time, with a pause
/// between parts that exceeds the difference between the sidecars' clocks. Sidecars that wake slightly later still find
/// most of it, so all get about the same, however many calls wait. If there is less than one part for each, a sidecar
/// that got nothing asks earlier the next time: each miss halves its delay. It then comes first, and the one served
/// most recently comes last. A single sidecar neither divides nor waits.
enum CapacitySplit {
    /// The number of parts in which a sidecar takes its even portion.
    private static let parts: Int64 = 4
    /// The maximum delay, in microseconds. It exceeds the difference between two sidecars' estimates of a window's end:
    /// one millisecond, the resolution of Redis's report, plus the network latency.
    private static let maximumDelay: Int64 = 4000
    /// The maximum delay is at most 1/`delayFraction` of the refill interval.
    private static let delayFraction: Int64 = 100

    /// Returns the maximum cost that the waiting calls of one batch may request from a counter; `nil` if there is no
    /// limit.
    static func part(of capacity: Int64, sidecars: Int) -> Int64? {
        guard sidecars > 1 else { return nil }
        let divisor = parts * Int64(sidecars)
        return max(1, (capacity - 1) / divisor + 1)
    }

    /// Returns the delay after which waiting calls retry once capacity is available again, in microseconds.
    /// - Parameter misses: the number of refusals since this sidecar was last granted something.
    static func delay(of definition: LimitDefinition, misses: Int, sidecars: Int) -> Int64 {
        guard sidecars > 1 else { return 0 }
        return maximumDelay(of: definition) >> Int64(min(misses, 62))
    }

    /// Returns the pause between two parts, in microseconds.
    static func pause(of definition: LimitDefinition, sidecars: Int) -> Int64 {
        // All parts together take at most a tenth of the refill interval if no other sidecar asks.
        min(maximumDelay(of: definition) / 2, refillInterval(of: definition) / (10 * parts * Int64(max(1, sidecars))))
    }

    private static func maximumDelay(of definition: LimitDefinition) -> Int64 {
        min(maximumDelay, refillInterval(of: definition) / delayFraction)
    }

    /// Returns how long capacity takes to become available, in microseconds.
    private static func refillInterval(of definition: LimitDefinition) -> Int64 {
        let window = definition.windowMilliseconds * 1000
        return if case .gcra = definition.algorithm { window / definition.limit } else { window }
    }
}

/// The rules for dividing a counter's capacity among the sidecars whose callers wait for it. Each sidecar decides
/// independently, without knowing how many calls wait elsewhere.
///
/// When capacity becomes available, each sidecar takes it in parts of a quarter of its even portion. The pause between
/// two parts exceeds the difference between the sidecars' clocks. A sidecar that wakes slightly later therefore still
/// finds most of the capacity, and all sidecars get about the same, however many calls wait in each.
///
/// If there is less than one part for each sidecar, a sidecar that got nothing asks earlier the next time: each miss
/// halves its delay. The sidecar with the most misses in a row comes first, and the one served most recently comes
/// last. A single sidecar neither divides capacity nor delays its calls.
enum CapacitySplit {
    /// The number of parts in which a sidecar takes its even portion.
    private static let partsPerPortion: Int64 = 4
    /// The longest delay of any limit, in microseconds. It exceeds the difference between two sidecars' estimates of a
    /// window's end: one millisecond, the resolution of Redis's report, plus the network latency.
    private static let maximumDelayMicroseconds: Int64 = 4000
    /// The number of maximum delays that fit into a refill interval, at least.
    private static let minimumDelaysPerRefill: Int64 = 100

    /// Returns the maximum cost that the waiting calls of one batch may request from a counter; `nil` if they may
    /// request all of the capacity.
    static func part(of capacity: Int64, sidecars: Int) -> Int64? {
        guard sidecars > 1 else { return nil }
        let divisor = partsPerPortion * Int64(sidecars)
        return max(1, (capacity - 1) / divisor + 1)
    }

    /// Returns the delay after which waiting calls retry once capacity is available again, in microseconds.
    /// - Parameter misses: the number of refusals since this sidecar's last grant.
    static func delayMicroseconds(of definition: LimitDefinition, misses: Int, sidecars: Int) -> Int64 {
        guard sidecars > 1 else { return 0 }
        return maximumDelayMicroseconds(of: definition) >> Int64(min(misses, 62))
    }

    /// Returns the pause between two parts, in microseconds.
    static func pauseMicroseconds(of definition: LimitDefinition, sidecars: Int) -> Int64 {
        // If no other sidecar asks, all parts together take at most a tenth of the refill interval.
        min(
            maximumDelayMicroseconds(of: definition) / 2,
            refillMicroseconds(of: definition) / (10 * partsPerPortion * Int64(max(1, sidecars))))
    }

    private static func maximumDelayMicroseconds(of definition: LimitDefinition) -> Int64 {
        min(maximumDelayMicroseconds, refillMicroseconds(of: definition) / minimumDelaysPerRefill)
    }

    /// Returns the refill interval, after which capacity becomes available, in microseconds.
    private static func refillMicroseconds(of definition: LimitDefinition) -> Int64 {
        let windowMicroseconds = definition.windowMilliseconds * 1000
        return if case .gcra = definition.algorithm {
            windowMicroseconds / definition.limit
        } else {
            windowMicroseconds
        }
    }
}

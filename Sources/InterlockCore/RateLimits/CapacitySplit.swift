/// The rules by which sidecars whose callers wait for the same counter divide its room. Each sidecar decides alone,
/// without knowing how many calls wait elsewhere.
///
/// When there is room again, a sidecar takes it in parts: a quarter of its even portion of the capacity at a time, with
/// a pause between parts that exceeds the difference between the sidecars' clocks. Sidecars that wake slightly later
/// still find most of the room, so all get about the same, however many calls wait. If there is less than one part for
/// each, a sidecar that got nothing asks earlier the next time: each miss halves its delay. It then comes first, and
/// the one served most recently comes last. A single sidecar neither divides nor waits.
enum CapacitySplit {
    /// The number of parts in which a sidecar takes its even portion.
    private static let parts: Int64 = 4
    /// The longest delay, in microseconds. It exceeds the difference between two sidecars' estimates of a window's end:
    /// one millisecond, the resolution of Redis' report, plus the network latency.
    private static let longestDelay: Int64 = 4000
    /// The longest delay is at most 1/`delayFraction` of the time in which room appears.
    private static let delayFraction: Int64 = 100

    /// Returns the most that the waiting calls of one batch may request from a counter; `nil` if there is no limit.
    static func part(of capacity: Int64, sidecars: Int) -> Int64? {
        guard sidecars > 1 else { return nil }
        let divisor = parts * Int64(sidecars)
        return max(1, (capacity - 1) / divisor + 1)
    }

    /// Returns the delay after which waiting calls ask once there is room again, in microseconds.
    /// - Parameter rounds: the number of refusals since this sidecar was last granted something.
    static func delay(of definition: LimitDefinition, rounds: Int, sidecars: Int) -> Int64 {
        guard sidecars > 1 else { return 0 }
        return longestDelay(of: definition) >> Int64(min(rounds, 62))
    }

    /// Returns the pause between two parts, in microseconds.
    static func pause(of definition: LimitDefinition, sidecars: Int) -> Int64 {
        // All parts together take at most a tenth of the time in which room appears if no other sidecar asks.
        min(longestDelay(of: definition) / 2, unit(of: definition) / (10 * parts * Int64(max(1, sidecars))))
    }

    private static func longestDelay(of definition: LimitDefinition) -> Int64 {
        min(longestDelay, unit(of: definition) / delayFraction)
    }

    /// Returns the time in which room appears, in microseconds.
    private static func unit(of definition: LimitDefinition) -> Int64 {
        let window = definition.windowMilliseconds * 1000
        return if case .gcra = definition.algorithm { window / definition.limit } else { window }
    }
}

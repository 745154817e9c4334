/// How sidecars whose callers wait for the same counter share what it gives. Each decides for itself, and none knows how many
/// wait elsewhere.
///
/// When there is room again, a sidecar takes it in parts: of the capacity a quarter of an even share at a time, with a pause
/// between two of them that is longer than their clocks lie apart. So those who woke a little later find most of it still
/// there, and all get about the same, whatever their numbers of waiters. Where the room is less than a part for each, the
/// sidecar that went without is a little earlier the next time, by half of the head start for each time it went without:
/// then it is first, and the one that was served last comes last. A sidecar that is alone neither divides nor waits.
enum TurnSharing {
    /// How many parts a sidecar's even share is taken in.
    private static let parts: Int64 = 4
    /// The longest delay, in microseconds: above what lies between two sidecars' notions of a window's end (a millisecond, as
    /// Redis tells it, and the way to Redis).
    private static let longestDelay: Int64 = 4000
    /// The longest delay is this part of the time in which room comes.
    private static let delayShare: Int64 = 100

    /// How much the waiters of one batch may ask of a counter with `capacity`; `nil`: of any amount.
    static func part(of capacity: Int64, sidecars: Int) -> Int64? {
        guard sidecars > 1 else { return nil }
        let divisor = parts * Int64(sidecars)
        return max(1, (capacity - 1) / divisor + 1)
    }

    /// How long after there is room again those who wait here ask, in microseconds.
    /// - Parameter rounds: how often this sidecar went without since it was last granted something.
    static func delay(of definition: LimitDefinition, rounds: Int, sidecars: Int) -> Int64 {
        guard sidecars > 1 else { return 0 }
        return longestDelay(of: definition) >> Int64(min(rounds, 62))
    }

    /// How long after one part those who wait here ask for the next, in microseconds.
    static func pause(of definition: LimitDefinition, sidecars: Int) -> Int64 {
        // All parts together take no more than a tenth of the time in which room comes, should nobody else want any.
        min(longestDelay(of: definition) / 2, unit(of: definition) / (10 * parts * Int64(max(1, sidecars))))
    }

    private static func longestDelay(of definition: LimitDefinition) -> Int64 {
        min(longestDelay, unit(of: definition) / delayShare)
    }

    /// The time in which room comes, in microseconds.
    private static func unit(of definition: LimitDefinition) -> Int64 {
        let window = definition.windowMilliseconds * 1000
        return if case .gcra = definition.algorithm { window / definition.limit } else { window }
    }
}

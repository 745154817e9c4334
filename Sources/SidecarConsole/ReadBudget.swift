internal import InterlockCore

/// A token bucket for the Redis commands that consoles cause: a rate for each console, and a maximum for all. Confined
/// to the coordinator's event loop.
final class ReadBudget {
    /// The average number of commands per second for each console.
    private static let ratePerConsole = 5.0
    /// The maximum average number of commands per second for all consoles together.
    private static let maximumRate = 25.0
    private static let burst = 10.0

    /// The number of open consoles.
    var followers = 1
    private var available = ReadBudget.burst
    private var filledAt = Instant(nanoseconds: 0)

    /// Refills the budget and returns whether a read may begin.
    func mayRead(now: Instant) -> Bool {
        let passed = Double(max(0, now.nanoseconds - filledAt.nanoseconds)) / 1e9
        filledAt = now
        available = min(Self.burst, available + passed * min(Self.maximumRate, Self.ratePerConsole * Double(max(1, followers))))
        return available > 0
    }

    /// Reserves the expected cost of a read.
    /// - Returns: `false` if the read may not begin.
    func reserve(now: Instant, expecting commands: Int) -> Bool {
        guard mayRead(now: now) else { return false }
        available -= Double(commands)
        return true
    }

    /// Replaces the expected cost of a read with its actual cost.
    func correct(_ commands: Int, expected: Int) { available -= Double(commands - expected) }
}

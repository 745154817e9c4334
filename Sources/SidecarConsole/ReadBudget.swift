internal import InterlockCore

/// The number of Redis commands that consoles may cause: a rate for each console, with a limit for all. Confined to the
/// coordinator's event loop.
final class ReadBudget {
    /// The average commands per second for each console.
    private static let rate = 5.0
    /// The average commands per second for all consoles together.
    private static let highestRate = 25.0
    private static let burst = 10.0

    /// The number of open consoles.
    var followers = 1
    private var left = ReadBudget.burst
    private var filledAt = Instant(nanoseconds: 0)

    /// Returns whether a read may begin, after refilling the budget.
    func hasRoom(now: Instant) -> Bool {
        let passed = Double(max(0, now.nanoseconds - filledAt.nanoseconds)) / 1e9
        filledAt = now
        left = min(Self.burst, left + passed * min(Self.highestRate, Self.rate * Double(max(1, followers))))
        return left > 0
    }

    /// Spends the expected cost of a read if it may begin.
    func begin(now: Instant, expecting commands: Int) -> Bool {
        guard hasRoom(now: now) else { return false }
        left -= Double(commands)
        return true
    }

    /// Replaces the expected cost of a read by its actual cost.
    func settle(_ commands: Int, expected: Int) { left -= Double(commands - expected) }
}

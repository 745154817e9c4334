internal import InterlockCore

/// How much consoles may ask of Redis: so many commands a second for each that looks, on average. Confined to the coordinator's event
/// loop.
final class ReadBudget {
    /// Of one console, each second.
    private static let rate = 5.0
    /// Of all together.
    private static let highestRate = 25.0
    private static let burst = 10.0

    /// How many look.
    var looking = 1
    private var left = ReadBudget.burst
    private var filledAt = Instant(nanoseconds: 0)

    /// Whether something may be read.
    func hasRoom(now: Instant) -> Bool {
        let passed = Double(max(0, now.nanoseconds - filledAt.nanoseconds)) / 1e9
        filledAt = now
        left = min(Self.burst, left + passed * min(Self.highestRate, Self.rate * Double(max(1, looking))))
        return left > 0
    }

    /// The same, and the commands that it is expected to take are spent with that.
    func begin(now: Instant, expecting commands: Int) -> Bool {
        guard hasRoom(now: now) else { return false }
        left -= Double(commands)
        return true
    }

    /// Corrects the budget by the commands that the read took.
    func settle(_ commands: Int, expected: Int) { left -= Double(commands - expected) }
}

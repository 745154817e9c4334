internal import InterlockCore

/// A token bucket for the Redis commands that consoles cause, with a rate for each console and a maximum for all
/// consoles together. Confined to the coordinator's event loop.
final class ReadBudget {
    /// The average number of commands per second for each console.
    private static let ratePerConsole = 5.0
    /// The maximum average number of commands per second for all consoles together.
    private static let maximumRate = 25.0
    /// The maximum number of commands that the budget saves up.
    private static let burst = 10.0

    /// The number of open consoles.
    var consoleCount = 1
    private var availableCommands = ReadBudget.burst
    private var refilledAt = Instant(nanoseconds: 0)

    /// Refills the budget and returns whether a read may begin.
    func beginRead(now: Instant) -> Bool {
        let elapsedSeconds = Double(max(0, now.nanoseconds - refilledAt.nanoseconds)) / 1e9
        refilledAt = now
        let rate = min(Self.maximumRate, Self.ratePerConsole * Double(max(1, consoleCount)))
        availableCommands = min(Self.burst, availableCommands + elapsedSeconds * rate)
        return availableCommands > 0
    }

    /// Reserves the expected cost of a read.
    /// - Returns: `false` if the read may not begin.
    func reserve(now: Instant, expecting commands: Int) -> Bool {
        guard beginRead(now: now) else { return false }
        availableCommands -= Double(commands)
        return true
    }

    /// Replaces the expected cost of a read with its actual cost.
    func correct(_ commands: Int, expected: Int) { availableCommands -= Double(commands - expected) }
}

import InterlockCommandLine
import InterlockCore

/// The locks that are held.
struct LockListing: Answer {
    var locks: [LockReading]
    /// Whether these are all that match.
    var isComplete: Bool

    private enum CodingKeys: String, CodingKey {
        case locks
        case isComplete = "complete"
    }

    /// How many locks are listed or counted by default.
    static let standardLimit = 1000

    var table: String {
        var table = Table(["LOCK", "LABEL", "HOLDERS", "TIME LEFT", "FENCE", "WAITING"])
        for reading in locks {
            let lock = reading.lock
            table.add([
                lock.name, lock.label ?? "", reading.holdersText, reading.timeLeft, reading.fence, "\(lock.waiters)",
            ])
        }
        return table.text
    }
}

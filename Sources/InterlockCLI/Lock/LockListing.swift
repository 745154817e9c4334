import InterlockCommandLine
import InterlockCore

/// The locks that are held.
struct LockListing: Answer {
    var locks: [LockReading]
    /// Whether the listing contains all locks that match.
    var isComplete: Bool

    private enum CodingKeys: String, CodingKey {
        case locks
        case isComplete = "complete"
    }

    /// The default limit of a listing or count of locks.
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

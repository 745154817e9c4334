import InterlockCommandLine
import InterlockCore

/// The locks that are held.
struct LockListing: CommandOutput {
    var locks: [LockDetails]
    /// Whether the listing contains all matching locks.
    var isComplete: Bool

    private enum CodingKeys: String, CodingKey {
        case locks
        case isComplete = "complete"
    }

    /// The default maximum number of locks to list or count.
    static let standardLimit = 1000

    var table: String {
        var table = Table(["LOCK", "LABEL", "HOLDERS", "TIME LEFT", "FENCE", "WAITING"])
        for details in locks {
            let lock = details.lock
            table.add([
                lock.name, lock.label ?? "", details.holdersText, details.timeLeft, details.fence, "\(lock.waiters)",
            ])
        }
        return table.text
    }
}
